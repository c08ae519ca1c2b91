-- Takes unpinned buffers out of shared_buffers, writing the dirty ones: those of the relations whose tablespaces,
-- databases and relfilenumbers are $1, $2 and $3, or all when these are NULL. {schema} is where pg_buffercache is.
SELECT count(*) FILTER (WHERE evicted) AS evicted, count(*) FILTER (WHERE NOT evicted) AS stayed
FROM (
    SELECT {schema}.pg_buffercache_evict(b.bufferid) AS evicted
    FROM {schema}.pg_buffercache b
    WHERE b.relfilenode IS NOT NULL
      AND ($1::oid[] IS NULL
           OR (b.reltablespace, b.reldatabase, b.relfilenode) IN (
               SELECT t, d, f FROM unnest($1::oid[], $2::oid[], $3::oid[]) AS wanted (t, d, f)))
) AS tried
