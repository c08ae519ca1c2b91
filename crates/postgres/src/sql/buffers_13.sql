-- Every used buffer. {schema} is where pg_buffercache is.
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
