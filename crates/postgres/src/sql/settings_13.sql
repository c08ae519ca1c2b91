-- Explicitly set settings. Runs after session_reset_13, which leaves a few of pgthaw's own settings. For these, returns
-- the value that RESET would restore.
SELECT name, CASE source WHEN 'session' THEN reset_val || coalesce(unit, '') ELSE pg_catalog.current_setting(name) END AS value
FROM pg_catalog.pg_settings
WHERE source NOT IN ('default', 'override', 'client', 'session')
    OR (name IN ('idle_session_timeout', 'transaction_timeout')
        AND source = 'session' AND reset_val <> boot_val)
ORDER BY name
