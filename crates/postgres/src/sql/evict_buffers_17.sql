-- Takes unpinned buffers out of shared_buffers, writing the dirty ones: those of the relations whose tablespaces,
-- databases and relfilenumbers are given, or all when these are NULL. {schema} is where pg_buffercache is.
-- Since 18 pg_buffercache_evict has more columns; the first is still whether the buffer went. OFFSET 0 keeps the planner
-- from evicting before it chose.
SELECT pg_catalog.count(*) FILTER (WHERE done.evicted) AS evicted
FROM (
    SELECT b.bufferid
    FROM {schema}.pg_buffercache b
    WHERE b.relfilenode IS NOT NULL
      AND ({tablespaces}::pg_catalog.oid[] IS NULL
           OR (b.reltablespace, b.reldatabase, b.relfilenode) IN (
               SELECT ({tablespaces}::pg_catalog.oid[])[i], ({databases}::pg_catalog.oid[])[i], ({relfilenumbers}::pg_catalog.oid[])[i]
               FROM pg_catalog.generate_subscripts({tablespaces}::pg_catalog.oid[], 1) AS i))
    OFFSET 0
) AS chosen
CROSS JOIN LATERAL {schema}.pg_buffercache_evict(chosen.bufferid) AS done (evicted)
