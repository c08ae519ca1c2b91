-- {schema} is pg_buffercache's.
SELECT
    bufferid,
    reltablespace,
    reldatabase,
    relfilenode,
    relforknumber,
    relblocknumber,
    usagecount,
    isdirty
FROM {schema}.pg_buffercache
WHERE relfilenode IS NOT NULL
