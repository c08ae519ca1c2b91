-- pgthaw's own session on a server that it measures: what the workload's sessions are limited by does not hold for it.
-- Some of these came later: 14 has idle_session_timeout, 17 transaction_timeout.
SELECT pg_catalog.set_config(name, CASE name WHEN 'default_transaction_read_only' THEN 'off' ELSE '0' END, false)
FROM pg_catalog.pg_settings
WHERE name IN (
    'default_transaction_read_only', 'idle_in_transaction_session_timeout', 'idle_session_timeout',
    'statement_timeout', 'transaction_timeout'
)
