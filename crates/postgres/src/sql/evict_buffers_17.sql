-- Evicts unpinned buffers and writes dirty ones. Since 18, pg_buffercache_evict returns more columns; the first is the
-- same.
SELECT pg_catalog.count(*) FILTER (WHERE done.evicted) AS evicted
FROM pg_catalog.unnest({buffers}::pg_catalog.int4[]) AS chosen (bufferid)
CROSS JOIN LATERAL {schema}.pg_buffercache_evict(chosen.bufferid) AS done (evicted)
