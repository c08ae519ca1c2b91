-- For pg_buffercache 1.4 (PostgreSQL 16) and later, without a row per buffer. Usage count 0 includes unused buffers,
-- hence the subtraction.
SELECT
    u.usage_count,
    CASE u.usage_count WHEN 0 THEN greatest(u.buffers - s.buffers_unused, 0) ELSE u.buffers END::bigint AS buffers,
    u.dirty::bigint AS dirty
FROM {schema}.pg_buffercache_usage_counts() u
CROSS JOIN {schema}.pg_buffercache_summary() s
ORDER BY u.usage_count
