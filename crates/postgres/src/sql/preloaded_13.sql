-- What the server loads when it starts, separated by commas.
SELECT pg_catalog.current_setting('shared_preload_libraries')
