-- Settings that somebody set: in a file, on the command line, for a role or a database. Asked within session_reset_13,
-- where search_path alone is still pgthaw's own; of that one the value to which RESET would go back counts.
SELECT name, CASE name WHEN 'search_path' THEN reset_val ELSE current_setting(name) END AS value
FROM pg_catalog.pg_settings
WHERE source NOT IN ('default', 'override', 'client', 'session')
    OR (name = 'search_path' AND reset_val <> boot_val)
ORDER BY name
