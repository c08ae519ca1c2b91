-- Blocks of fork $3 of relation $1, in the ranges [$4, $5), as far as the fork still reaches: it may have been
-- truncated, and a relation dropped meanwhile has size NULL. $6 times, each of which raises the usage count of a buffer
-- by one. {schema} is where pg_prewarm is; each argument has the very type that it takes, so that no namesake fits better. Several
-- arrays side by side are given by the grammar's own unnest alone, which has no schema.
SELECT coalesce(pg_catalog.sum(
    CASE WHEN range.first < size.blocks
         THEN {schema}.pg_prewarm(
             $1::pg_catalog.oid::pg_catalog.regclass, $2::pg_catalog.text, $3::pg_catalog.text,
             range.first, least(range.past, size.blocks) - 1::bigint)
    END), 0)::bigint AS blocks
FROM (
    SELECT pg_catalog.pg_relation_size($1::pg_catalog.oid, $3::pg_catalog.text)
        / pg_catalog.current_setting('block_size')::bigint
) AS size (blocks)
CROSS JOIN (
    SELECT ($4::bigint[])[i], ($5::bigint[])[i] FROM pg_catalog.generate_subscripts($4::bigint[], 1) AS i
) AS range (first, past)
CROSS JOIN pg_catalog.generate_series(1, $6::integer)
