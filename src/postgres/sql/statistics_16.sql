-- The same of what version 16 brought.
SELECT 'pg_stat_io' AS view, row_to_json(s)::text AS counters FROM pg_stat_io s
