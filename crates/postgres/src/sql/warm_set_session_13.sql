-- An unresponsive standby must not block the agent. Lost rows do not matter: the next cycle writes again.
SELECT
    pg_catalog.set_config('synchronous_commit', 'off', true),
    pg_catalog.set_config('lock_timeout', '2s', true),
    pg_catalog.set_config('statement_timeout', '60s', true)
