-- The same of what version 17 brought; counters that pg_stat_bgwriter had before.
SELECT 'pg_stat_checkpointer' AS view, row_to_json(s)::text AS counters FROM pg_stat_checkpointer s
