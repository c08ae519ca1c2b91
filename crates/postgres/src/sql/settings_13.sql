-- Settings that somebody set: in a file, on the command line, for a role or a database. Asked within session_reset_13,
-- where a few alone are still pgthaw's own; of those the value to which RESET would go back counts.
SELECT name, CASE source WHEN 'session' THEN reset_val || coalesce(unit, '') ELSE pg_catalog.current_setting(name) END AS value
FROM pg_catalog.pg_settings
WHERE source NOT IN ('default', 'override', 'client', 'session')
    OR (name IN ('idle_session_timeout', 'transaction_timeout')
        AND source = 'session' AND reset_val <> boot_val)
ORDER BY name
