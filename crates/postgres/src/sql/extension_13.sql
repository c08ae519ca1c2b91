-- is_movable: the schema's owner, who may rename or drop it, is neither a superuser nor the current role. is_holdable:
-- this session may lock pg_namespace.
SELECT
    pg_catalog.quote_ident(n.nspname) AS schema,
    pg_catalog.quote_literal(pg_catalog.quote_ident(n.nspname)) AS schema_literal,
    e.extversion AS version,
    NOT EXISTS (
        SELECT FROM pg_catalog.pg_roles o
        WHERE o.oid = CASE WHEN pg_catalog.pg_get_userbyid(n.nspowner) = 'pg_database_owner' THEN d.datdba ELSE n.nspowner END
          AND (o.rolsuper OR o.rolname = current_user)
    ) AS is_movable,
    NOT pg_catalog.pg_is_in_recovery()
        AND pg_catalog.has_table_privilege('pg_catalog.pg_namespace', 'UPDATE') AS is_holdable
FROM pg_catalog.pg_extension e
JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace
JOIN pg_catalog.pg_database d ON d.datname = pg_catalog.current_database()
WHERE e.extname = $1
