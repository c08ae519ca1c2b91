-- The first statement of a session, before anything but qualified names can be trusted: no schema of others may be searched, and
-- the session must be the one that pgthaw's own first message began. Compared by pgthaw and not here, for an operator is looked up in
-- the path too.
SELECT pg_catalog.current_setting('search_path') AS path, pg_catalog.current_setting('pgthaw.session', true) AS mark
