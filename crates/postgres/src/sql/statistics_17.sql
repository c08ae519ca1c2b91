-- The same of what version 17 brought; counters that pg_stat_bgwriter had before.
SELECT 'pg_stat_checkpointer' AS view, pg_catalog.row_to_json(s)::pg_catalog.text AS counters
FROM pg_catalog.pg_stat_checkpointer s
