-- As of the last ANALYZE or VACUUM (below 0: never). The index is the primary key's, else the first.
SELECT
    c.oid AS relation_oid,
    c.reltuples::pg_catalog.float8 AS rows,
    c.relpages AS blocks,
    i.indexrelid AS index_oid
FROM pg_catalog.pg_class c
LEFT JOIN LATERAL (
    SELECT x.indexrelid
    FROM pg_catalog.pg_index x
    WHERE x.indrelid = c.oid AND x.indisvalid
    ORDER BY x.indisprimary DESC, x.indexrelid
    LIMIT 1
) i ON true
WHERE c.relkind IN ('r', 'm') AND c.relpersistence <> 't'
