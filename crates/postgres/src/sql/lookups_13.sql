-- Uses relpages instead of the current size: VACUUM and ANALYZE set relpages together with reltuples, and reading it
-- needs no lock on the relation.
SELECT
    c.oid,
    i.indrelid AS "table",
    coalesce(pg_catalog.pg_stat_get_numscans(c.oid), 0) AS scans,
    coalesce(pg_catalog.pg_stat_get_tuples_returned(c.oid), 0) AS read,
    coalesce(pg_catalog.pg_stat_get_tuples_fetched(c.oid), 0) AS fetched,
    CASE WHEN c.reltuples > 0 AND c.relpages > 0 THEN c.reltuples::pg_catalog.float8 / c.relpages END AS rows_per_block
FROM pg_catalog.pg_class c
LEFT JOIN pg_catalog.pg_index i ON i.indexrelid = c.oid
WHERE c.relkind IN ('r', 'i', 't', 'm')
  AND c.relpersistence <> 't'
  AND c.oid >= 16384
