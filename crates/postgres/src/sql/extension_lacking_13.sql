-- Most important privilege missing for extension $1, in GRANT's syntax; or the predefined role $2, if its members have
-- this privilege. Old servers may lack the role.
WITH parts AS (
    SELECT e.extnamespace, p.oid AS function_oid, c.oid AS view_oid
    FROM pg_catalog.pg_extension e
    JOIN pg_catalog.pg_depend d
        ON d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass AND d.refobjid = e.oid AND d.deptype = 'e'
    -- Only superusers may use other objects.
    LEFT JOIN pg_catalog.pg_proc p
        ON d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND p.oid = d.objid
       AND p.proname IN ('pg_prewarm', 'pg_buffercache_pages')
    LEFT JOIN pg_catalog.pg_class c
        ON d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND c.oid = d.objid AND c.relname = 'pg_buffercache'
    WHERE e.extname = $1
),
members AS (
    SELECT (SELECT oid FROM pg_catalog.pg_roles WHERE rolname = $2) AS role
)
SELECT CASE WHEN lacking.members_may THEN $2 ELSE lacking.privilege END
FROM parts
CROSS JOIN members
CROSS JOIN LATERAL (VALUES
    (1, pg_catalog.format('USAGE ON SCHEMA %s', parts.extnamespace::pg_catalog.regnamespace),
     pg_catalog.has_schema_privilege(parts.extnamespace, 'USAGE'),
     pg_catalog.has_schema_privilege(members.role, parts.extnamespace, 'USAGE')),
    (2, pg_catalog.format('EXECUTE ON FUNCTION %s', parts.function_oid::pg_catalog.regprocedure),
     pg_catalog.has_function_privilege(parts.function_oid, 'EXECUTE'),
     pg_catalog.has_function_privilege(members.role, parts.function_oid, 'EXECUTE')),
    (3, pg_catalog.format('SELECT ON %s', parts.view_oid::pg_catalog.regclass),
     pg_catalog.has_table_privilege(parts.view_oid, 'SELECT'),
     pg_catalog.has_table_privilege(members.role, parts.view_oid, 'SELECT'))
) AS lacking (rank, privilege, may, members_may)
WHERE NOT lacking.may
ORDER BY lacking.rank
LIMIT 1
