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
