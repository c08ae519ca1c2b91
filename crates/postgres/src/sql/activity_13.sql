-- Counts since the last reset. Excludes catalogs, which are small and cached by the first transactions.
SELECT
    c.oid,
    n.nspname AS schema,
    c.relname AS name,
    c.relkind::pg_catalog.text AS relkind,
    i.indrelid AS "table",
    coalesce(a.amname, '')::pg_catalog.text AS access_method,
    coalesce(pg_catalog.pg_relation_size(c.oid, 'main'), 0) / pg_catalog.current_setting('block_size')::bigint AS blocks,
    coalesce(pg_catalog.pg_stat_get_blocks_fetched(c.oid), 0) AS requests,
    coalesce(pg_catalog.pg_stat_get_numscans(c.oid), 0) AS scans,
    coalesce(pg_catalog.pg_stat_get_tuples_returned(c.oid), 0) AS read,
    coalesce(pg_catalog.pg_stat_get_tuples_fetched(c.oid), 0) AS fetched,
    coalesce(pg_catalog.pg_stat_get_tuples_inserted(c.oid), 0) AS inserted,
    coalesce(pg_catalog.pg_stat_get_tuples_updated(c.oid) + pg_catalog.pg_stat_get_tuples_deleted(c.oid), 0) AS changed,
    c.reltuples::pg_catalog.float8 AS tuples
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_catalog.pg_index i ON i.indexrelid = c.oid
LEFT JOIN pg_catalog.pg_am a ON a.oid = c.relam
WHERE c.relkind IN ('r', 'i', 't', 'm')
  AND c.relpersistence <> 't'
  AND c.oid >= 16384
