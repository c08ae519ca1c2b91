-- As evict_buffers_17.sql, where pg_buffercache_evict tells what it did in two columns.
SELECT count(*) FILTER (WHERE (tried.done).buffer_evicted) AS evicted,
       count(*) FILTER (WHERE NOT (tried.done).buffer_evicted) AS stayed
FROM (
    SELECT {schema}.pg_buffercache_evict(b.bufferid) AS done
    FROM {schema}.pg_buffercache b
    WHERE b.relfilenode IS NOT NULL
      AND ($1::oid[] IS NULL
           OR (b.reltablespace, b.reldatabase, b.relfilenode) IN (
               SELECT t, d, f FROM unnest($1::oid[], $2::oid[], $3::oid[]) AS wanted (t, d, f)))
) AS tried
