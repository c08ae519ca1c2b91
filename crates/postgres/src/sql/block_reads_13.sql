-- Blocks of all forks that missed shared_buffers, since the last reset.
SELECT
    oid AS relation_oid,
    relisshared AS is_shared,
    greatest(pg_catalog.pg_stat_get_blocks_fetched(oid) - pg_catalog.pg_stat_get_blocks_hit(oid), 0) AS reads
FROM pg_catalog.pg_class
WHERE relkind IN ('r', 'i', 't', 'm', 'S')
