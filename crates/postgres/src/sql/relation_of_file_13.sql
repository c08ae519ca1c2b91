-- For a TOAST table or its index, returns the owning table.
SELECT n.nspname, coalesce(owner.relname, c.relname) AS relname, owner.oid IS NOT NULL AS is_toast
FROM pg_catalog.pg_class AS c
LEFT JOIN pg_catalog.pg_index AS i ON i.indexrelid = c.oid
LEFT JOIN pg_catalog.pg_class AS owner ON owner.reltoastrelid = coalesce(i.indrelid, c.oid)
JOIN pg_catalog.pg_namespace AS n ON n.oid = coalesce(owner.relnamespace, c.relnamespace)
JOIN pg_catalog.pg_database AS d ON d.datname = pg_catalog.current_database()
WHERE pg_catalog.pg_relation_filenode(c.oid) = $1 AND CASE WHEN c.relisshared THEN 0 ELSE d.oid END = $2
