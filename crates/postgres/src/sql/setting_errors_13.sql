-- Settings in the configuration files that the running server cannot use as they stand. One that waits for a restart is
-- told by its place in pg_settings.
SELECT name, error FROM pg_catalog.pg_file_settings WHERE error IS NOT NULL AND name IS NOT NULL
