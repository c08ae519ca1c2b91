SELECT
    n.nspname,
    c.relname,
    pn.nspname AS parent_schema,
    p.relname AS parent_name
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_catalog.pg_inherits h ON h.inhrelid = c.oid AND c.relispartition
LEFT JOIN pg_catalog.pg_class p ON p.oid = h.inhparent
LEFT JOIN pg_catalog.pg_namespace pn ON pn.oid = p.relnamespace
WHERE c.relkind = 'p'
  AND c.relpersistence <> 't'
