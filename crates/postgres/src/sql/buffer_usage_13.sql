-- For pg_buffercache before 1.4. Unused buffers have no usage count.
SELECT
    usagecount::int AS usage_count,
    pg_catalog.count(*) AS buffers,
    pg_catalog.count(*) FILTER (WHERE isdirty) AS dirty
FROM {schema}.pg_buffercache
WHERE relfilenode IS NOT NULL
GROUP BY usagecount
ORDER BY usagecount
