-- Fails if the extension is not in {schema}, which stops the next statement.
SELECT CASE
    WHEN EXISTS (
        SELECT
        FROM pg_catalog.pg_extension e
        JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace
        WHERE e.extname = '{extension}' AND pg_catalog.quote_ident(n.nspname) = {quoted_schema})
    THEN '1'
    ELSE '{extension} was moved to another schema meanwhile'
END::int
