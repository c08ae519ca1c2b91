-- Takes unpinned buffers out of shared_buffers, writing the dirty ones. {schema} is where pg_buffercache is.
-- Since 18 pg_buffercache_evict has more columns; the first is still whether the buffer went.
SELECT pg_catalog.count(*) FILTER (WHERE done.evicted) AS evicted
FROM pg_catalog.unnest({buffers}::pg_catalog.int4[]) AS chosen (bufferid)
CROSS JOIN LATERAL {schema}.pg_buffercache_evict(chosen.bufferid) AS done (evicted)
