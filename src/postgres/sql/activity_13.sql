-- What was asked of each relation of this database since the statistics began. Catalogs are left out: they are small, and
-- the first transactions bring them.
SELECT
    c.oid,
    n.nspname,
    c.relname,
    c.relkind::pg_catalog.text AS relkind,
    coalesce(pg_catalog.pg_relation_size(c.oid, 'main'), 0) / pg_catalog.current_setting('block_size')::bigint AS blocks,
    coalesce(pg_catalog.pg_stat_get_blocks_fetched(c.oid), 0) AS requests,
    coalesce(pg_catalog.pg_stat_get_numscans(c.oid), 0) AS scans,
    c.reltuples::pg_catalog.float8 AS tuples
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'i', 't', 'm')
  AND c.relpersistence <> 't'
  AND c.oid >= 16384
