-- Settings that somebody set: in a file, on the command line, for a role or a database.
SELECT name, current_setting(name) AS value
FROM pg_catalog.pg_settings
WHERE source NOT IN ('default', 'override', 'client', 'session')
ORDER BY name
