-- Blocks of the ranges [starts, ends), up to the fork's current end: it may be truncated or dropped (NULL). Exact
-- argument types ensure that no overload of {schema}.pg_prewarm fits better.
-- Only the unqualified unnest accepts several arrays, hence generate_subscripts.
SELECT coalesce(pg_catalog.sum(
    CASE WHEN range.first < size.blocks
         THEN {schema}.pg_prewarm(
             {relation}::pg_catalog.oid::pg_catalog.regclass, '{mode}'::pg_catalog.text, '{fork}'::pg_catalog.text,
             range.first, least(range.past, size.blocks) - 1::bigint)
    END), 0)::bigint AS blocks
FROM (
    SELECT pg_catalog.pg_relation_size({relation}::pg_catalog.oid, '{fork}'::pg_catalog.text)
        / pg_catalog.current_setting('block_size')::bigint
) AS size (blocks)
CROSS JOIN (
    SELECT ('{starts}'::bigint[])[i], ('{ends}'::bigint[])[i]
    FROM pg_catalog.generate_subscripts('{starts}'::bigint[], 1) AS i
) AS range (first, past)
CROSS JOIN pg_catalog.generate_series(1, {passes})
