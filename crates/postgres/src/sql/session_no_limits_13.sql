-- Removes the workload's limits from pgthaw's session on a measured server. idle_session_timeout exists since 14,
-- transaction_timeout since 17.
SELECT pg_catalog.set_config(name, CASE name WHEN 'default_transaction_read_only' THEN 'off' ELSE '0' END, false)
FROM pg_catalog.pg_settings
WHERE name IN (
    'default_transaction_read_only', 'idle_in_transaction_session_timeout', 'idle_session_timeout',
    'statement_timeout', 'transaction_timeout'
)
