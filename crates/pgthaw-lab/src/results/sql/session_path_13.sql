-- The session's search_path, to verify the startup packet's value.
SELECT pg_catalog.current_setting('search_path')
