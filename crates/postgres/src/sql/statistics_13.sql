-- Statistics of the whole server and of one database, a row of a view each.
SELECT 'pg_stat_bgwriter' AS view, pg_catalog.row_to_json(s)::pg_catalog.text AS counters FROM pg_catalog.pg_stat_bgwriter s
UNION ALL
SELECT 'pg_stat_database', pg_catalog.row_to_json(s)::pg_catalog.text FROM pg_catalog.pg_stat_database s WHERE datname = $1
