-- Where in this database extension $1 is, and which version of it.
SELECT pg_catalog.quote_ident(n.nspname) AS schema, e.extversion AS version
FROM pg_catalog.pg_extension e
JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace
WHERE e.extname = $1
