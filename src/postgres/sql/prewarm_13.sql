-- Blocks [$4, $5) of fork $3 of relation $1, as far as the fork still reaches: it may have been truncated, and a
-- relation dropped meanwhile has size NULL. {schema} is where pg_prewarm is.
SELECT coalesce(
    CASE WHEN size.blocks > $4::bigint
         THEN {schema}.pg_prewarm($1::oid::regclass, $2::text, $3::text, $4::bigint, least($5::bigint, size.blocks) - 1)
    END, 0) AS blocks
FROM (
    SELECT pg_relation_size($1::oid, $3::text) / current_setting('block_size')::bigint
) AS size (blocks)
