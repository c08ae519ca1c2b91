-- Blocks of each relation of the connected database, all forks, that were not found in shared_buffers, since the
-- statistics were last reset.
SELECT
    oid,
    relisshared,
    greatest(pg_catalog.pg_stat_get_blocks_fetched(oid) - pg_catalog.pg_stat_get_blocks_hit(oid), 0) AS reads
FROM pg_catalog.pg_class
WHERE relkind IN ('r', 'i', 't', 'm', 'S')
