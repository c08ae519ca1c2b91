-- If $1, includes shared catalogs. pg_relation_filepath takes no lock, and is NULL for a dropped relation.
SELECT
    c.oid,
    n.nspname,
    c.relname,
    c.relkind::pg_catalog.text AS relkind,
    c.relisshared,
    pg_catalog.pg_relation_filepath(c.oid) AS path,
    t.spcname,
    pn.nspname AS parent_schema,
    p.relname AS parent_name,
    coalesce(o.relnamespace, c.relnamespace)
        = ANY (ARRAY['pg_catalog', 'information_schema']::pg_catalog.regnamespace[]::pg_catalog.oid[]) AS is_system
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_database d ON d.datname = pg_catalog.current_database()
JOIN pg_catalog.pg_tablespace t ON t.oid = coalesce(nullif(c.reltablespace, 0), d.dattablespace)
LEFT JOIN pg_catalog.pg_index i ON i.indexrelid = c.oid
-- o owns TOAST table or index c.
LEFT JOIN pg_catalog.pg_class o ON o.reltoastrelid = coalesce(i.indrelid, c.oid)
-- h: parent of partition c.
LEFT JOIN pg_catalog.pg_inherits h ON h.inhrelid = c.oid AND c.relispartition AND c.relkind = 'r'
LEFT JOIN pg_catalog.pg_class p ON p.oid = coalesce(i.indrelid, o.oid, h.inhparent)
LEFT JOIN pg_catalog.pg_namespace pn ON pn.oid = p.relnamespace
WHERE c.relkind IN ('r', 'i', 't', 'm', 'S')
  AND c.relpersistence <> 't'
  AND (NOT c.relisshared OR $1)
