-- Blocks of a fork of a relation, in the ranges [starts, ends), as far as the fork still reaches: it may have been truncated, and a
-- relation dropped meanwhile has size NULL. {passes} times, each of which raises the usage count of a buffer by one. {schema} is where
-- pg_prewarm is; each argument has the very type that it takes, so that no namesake fits better. Several arrays side by side are given
-- by the grammar's own unnest alone, which has no schema.
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
    SELECT (ARRAY[{starts}]::bigint[])[i], (ARRAY[{ends}]::bigint[])[i] FROM pg_catalog.generate_subscripts(ARRAY[{starts}]::bigint[], 1) AS i
) AS range (first, past)
CROSS JOIN pg_catalog.generate_series(1, {passes})
