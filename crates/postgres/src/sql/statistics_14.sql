-- The same of what version 14 brought.
SELECT 'pg_stat_wal' AS view, pg_catalog.row_to_json(s)::pg_catalog.text AS counters FROM pg_catalog.pg_stat_wal s
