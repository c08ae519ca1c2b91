-- Where results are kept: the first schema of the role's search_path that there is. Nothing of that path can be trusted yet.
SELECT pg_catalog.current_schema()::pg_catalog.text
