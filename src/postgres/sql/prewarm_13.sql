-- Blocks of fork $3 of relation $1, in the ranges [$4, $5), as far as the fork still reaches: it may have been
-- truncated, and a relation dropped meanwhile has size NULL. $6 times, each of which raises the usage count of a buffer
-- by one. {schema} is where pg_prewarm is.
SELECT coalesce(sum(
    CASE WHEN range.first < size.blocks
         THEN {schema}.pg_prewarm(
             $1::oid::regclass, $2::text, $3::text, range.first, least(range.past, size.blocks) - 1)
    END), 0)::bigint AS blocks
FROM (
    SELECT pg_relation_size($1::oid, $3::text) / current_setting('block_size')::bigint
) AS size (blocks)
CROSS JOIN unnest($4::bigint[], $5::bigint[]) AS range (first, past)
CROSS JOIN generate_series(1, $6::integer)
