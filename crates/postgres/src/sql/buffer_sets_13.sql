-- A row has up to 65,536 block numbers of 2 bytes: aggregation costs less than a row per block.
SELECT
    reltablespace,
    reldatabase,
    relfilenode,
    relforknumber,
    usagecount,
    isdirty,
    relblocknumber >> 16 AS part,
    pg_catalog.string_agg(pg_catalog.int2send(((relblocknumber & 65535) - 32768)::pg_catalog.int2), ''::pg_catalog.bytea) AS offsets
FROM {schema}.pg_buffercache
WHERE relfilenode IS NOT NULL
GROUP BY reltablespace, reldatabase, relfilenode, relforknumber, usagecount, isdirty, part
