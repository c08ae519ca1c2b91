-- The first statement of each session: where it looks for names, as its startup packet asked.
SELECT pg_catalog.current_setting('search_path')
