-- Blocks of fork $3 of relation $1, in the ranges [$4, $5), as far as the fork still reaches: it may have been
-- truncated, and a relation dropped meanwhile has size NULL. $6 times, each of which raises the usage count of a buffer
-- by one. {schema} is where pg_prewarm is.
SELECT coalesce(pg_catalog.sum(
    CASE WHEN range.first < size.blocks
         THEN {schema}.pg_prewarm(
             $1::pg_catalog.oid::pg_catalog.regclass, $2::pg_catalog.text, $3::pg_catalog.text, range.first, least(range.past, size.blocks) - 1)
    END), 0)::bigint AS blocks
FROM (
    SELECT pg_catalog.pg_relation_size($1::pg_catalog.oid, $3::pg_catalog.text) / pg_catalog.current_setting('block_size')::bigint
) AS size (blocks)
CROSS JOIN pg_catalog.unnest($4::bigint[], $5::bigint[]) AS range (first, past)
CROSS JOIN pg_catalog.generate_series(1, $6::integer)
