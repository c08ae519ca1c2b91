-- The same of what version 14 brought.
SELECT 'pg_stat_wal' AS view, row_to_json(s)::text AS counters FROM pg_stat_wal s
