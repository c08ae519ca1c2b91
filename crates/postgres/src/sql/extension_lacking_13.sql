-- Most important privilege missing for extension $1, in GRANT's syntax; or the predefined role $2, if its members have
-- this privilege. Old servers may lack the role.
WITH parts AS (
    SELECT d.classid, d.objid, e.extnamespace
    FROM pg_catalog.pg_extension e
    JOIN pg_catalog.pg_depend d
        ON d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass AND d.refobjid = e.oid AND d.deptype = 'e'
    WHERE e.extname = $1
),
members AS (
    SELECT (SELECT oid FROM pg_catalog.pg_roles WHERE rolname = $2) AS role
)
SELECT CASE WHEN lacking.members_may THEN $2 ELSE lacking.privilege END
FROM (
    SELECT
        1,
        pg_catalog.format('USAGE ON SCHEMA %s', parts.extnamespace::pg_catalog.regnamespace),
        pg_catalog.has_schema_privilege(members.role, parts.extnamespace, 'USAGE')
    FROM parts
    CROSS JOIN members
    WHERE NOT pg_catalog.has_schema_privilege(parts.extnamespace, 'USAGE')
    UNION ALL
    -- Only superusers may use other objects.
    SELECT
        2,
        pg_catalog.format('EXECUTE ON FUNCTION %s', p.oid::pg_catalog.regprocedure),
        pg_catalog.has_function_privilege(members.role, p.oid, 'EXECUTE')
    FROM parts
    JOIN pg_catalog.pg_proc p ON parts.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND p.oid = parts.objid
    CROSS JOIN members
    WHERE p.proname IN ('pg_prewarm', 'pg_buffercache_pages')
      AND NOT pg_catalog.has_function_privilege(p.oid, 'EXECUTE')
    UNION ALL
    SELECT
        3,
        pg_catalog.format('SELECT ON %s', c.oid::pg_catalog.regclass),
        pg_catalog.has_table_privilege(members.role, c.oid, 'SELECT')
    FROM parts
    JOIN pg_catalog.pg_class c ON parts.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND c.oid = parts.objid
    CROSS JOIN members
    WHERE c.relname = 'pg_buffercache'
      AND NOT pg_catalog.has_table_privilege(c.oid, 'SELECT')
) AS lacking (rank, privilege, members_may)
ORDER BY lacking.rank
LIMIT 1
