-- The same of what version 16 brought.
SELECT 'pg_stat_io' AS view, pg_catalog.row_to_json(s)::pg_catalog.text AS counters FROM pg_catalog.pg_stat_io s
