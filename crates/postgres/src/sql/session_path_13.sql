-- The first statement of a session, before anything but qualified names can be trusted: no schema of others may be searched.
-- Compared by pgthaw and not here, for an operator is looked up in the path too.
SELECT pg_catalog.current_setting('search_path')
