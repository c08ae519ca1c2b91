-- Statistics of the whole server and of one database, a row of a view each.
SELECT 'pg_stat_bgwriter' AS view, row_to_json(s)::text AS counters FROM pg_stat_bgwriter s
UNION ALL
SELECT 'pg_stat_database', row_to_json(s)::text FROM pg_stat_database s WHERE datname = $1
