-- Who, beside superusers and this role, may put a function or a table into schema $1. A plain role trusts the roles that it is
-- a member of; a superuser trusts superusers alone.
WITH place AS (
    SELECT
        n.nspacl,
        n.nspowner,
        CASE o.rolname WHEN 'pg_database_owner' THEN d.datdba ELSE n.nspowner END AS owner
    FROM pg_catalog.pg_namespace n
    JOIN pg_catalog.pg_roles o ON o.oid = n.nspowner
    JOIN pg_catalog.pg_database d ON d.datname = pg_catalog.current_database()
    WHERE n.nspname = $1
),
makers AS (
    SELECT place.owner AS role FROM place
    UNION
    SELECT CASE acl.grantee WHEN place.nspowner THEN place.owner ELSE acl.grantee END
    FROM place
    CROSS JOIN pg_catalog.aclexplode(place.nspacl) AS acl
    WHERE acl.privilege_type = 'CREATE'
)
SELECT coalesce(r.rolname::pg_catalog.text, 'everybody') AS who
FROM makers
LEFT JOIN pg_catalog.pg_roles r ON r.oid = makers.role
JOIN pg_catalog.pg_roles me ON me.rolname = current_user
WHERE coalesce(
    NOT r.rolsuper AND r.oid <> me.oid AND (me.rolsuper OR NOT pg_catalog.pg_has_role(me.oid, r.oid, 'USAGE')),
    true)
ORDER BY who
LIMIT 1
