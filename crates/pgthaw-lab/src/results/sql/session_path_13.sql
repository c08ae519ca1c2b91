-- The session's search_path: a pooler may ignore the startup packet's value.
SELECT pg_catalog.current_setting('search_path')
