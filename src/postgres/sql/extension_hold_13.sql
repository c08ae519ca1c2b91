-- Until the transaction ends the schema of extension $1 is neither renamed nor dropped.
SELECT
FROM pg_catalog.pg_extension e
JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace
WHERE e.extname = $1
FOR SHARE OF n
