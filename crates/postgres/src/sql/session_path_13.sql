-- First statement of a session, when only qualified names are safe. pgthaw compares the values itself, because
-- search_path also applies to operators.
SELECT pg_catalog.current_setting('search_path') AS path, pg_catalog.current_setting('pgthaw.session', true) AS mark
