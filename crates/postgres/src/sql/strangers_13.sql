-- The first object of schema pgthaw that an untrusted role owns or may change, or the first trigger, rule or policy,
-- which pgthaw never creates.
-- Trusted: superusers and the login role; if it is not a superuser, also current_user and roles whose
-- privileges the login role inherits. A trigger may RESET ROLE to the login role. Requires an empty search_path.
WITH RECURSIVE me AS (
    SELECT login.oid, login.rolsuper, acting.oid AS acting_oid
    FROM pg_catalog.pg_roles login
    JOIN pg_catalog.pg_roles acting ON acting.rolname = current_user
    WHERE login.rolname = session_user
),
here AS (
    SELECT d.oid, d.datdba FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database()
),
place AS (
    SELECT n.oid, n.nspowner, n.nspacl FROM pg_catalog.pg_namespace n WHERE n.nspname = 'pgthaw'
),
-- pg_database_owner stands for the owner of the database.
strangers AS (
    SELECT r.oid, who.rolname::pg_catalog.text AS name
    FROM pg_catalog.pg_roles r
    CROSS JOIN me
    CROSS JOIN here
    JOIN pg_catalog.pg_roles who ON who.oid = CASE r.rolname WHEN 'pg_database_owner' THEN here.datdba ELSE r.oid END
    WHERE NOT who.rolsuper
      AND who.oid <> me.oid
      AND (me.rolsuper OR (who.oid <> me.acting_oid AND NOT pg_catalog.pg_has_role(me.oid, who.oid, 'USAGE')))
    UNION ALL
    SELECT 0, 'everybody'
),
-- Objects of the schema, their parts, tables that inherit from or reference them, event triggers, and all objects
-- that these use.
parts AS (
    SELECT d.classid, d.objid
    FROM pg_catalog.pg_depend d
    JOIN place ON place.oid = d.refobjid
    WHERE d.refclassid = 'pg_catalog.pg_namespace'::pg_catalog.regclass
    UNION
    SELECT 'pg_catalog.pg_event_trigger'::pg_catalog.regclass::pg_catalog.oid, e.oid
    FROM pg_catalog.pg_event_trigger e
    WHERE e.evtenabled <> 'D'
    UNION
    SELECT next.classid, next.objid
    FROM parts
    CROSS JOIN LATERAL (
        SELECT d.classid, d.objid
        FROM pg_catalog.pg_depend d
        WHERE d.refclassid = parts.classid AND d.refobjid = parts.objid
          AND (d.deptype IN ('a', 'i', 'P', 'S')
               OR d.classid = 'pg_catalog.pg_constraint'::pg_catalog.regclass
               OR (d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.refclassid = d.classid))
        UNION ALL
        SELECT d.refclassid, d.refobjid
        FROM pg_catalog.pg_depend d
        WHERE d.classid = parts.classid AND d.objid = parts.objid
          AND d.refclassid NOT IN (
              'pg_catalog.pg_namespace'::pg_catalog.regclass, 'pg_catalog.pg_extension'::pg_catalog.regclass)
    ) AS next
),
tables AS (
    SELECT c.oid, c.relacl FROM pg_catalog.pg_class c JOIN place ON place.oid = c.relnamespace
),
findings AS (
    SELECT 1 AS rank, 'schema pgthaw' AS what, 'belongs to' AS how, place.nspowner AS role FROM place
    UNION ALL
    SELECT 2, pg_catalog.pg_describe_object(parts.classid, parts.objid, 0), 'belongs to', s.refobjid
    FROM parts
    CROSS JOIN here
    JOIN pg_catalog.pg_shdepend s
        ON s.dbid = here.oid AND s.classid = parts.classid AND s.objid = parts.objid AND s.deptype = 'o'
    UNION ALL
    SELECT 3, 'schema pgthaw', 'can be added to by', acl.grantee
    FROM place
    CROSS JOIN pg_catalog.aclexplode(place.nspacl) AS acl
    WHERE acl.privilege_type = 'CREATE'
    UNION ALL
    SELECT 4, pg_catalog.pg_describe_object('pg_catalog.pg_class'::pg_catalog.regclass, tables.oid, 0),
        'can be given triggers by', acl.grantee
    FROM tables
    CROSS JOIN pg_catalog.aclexplode(tables.relacl) AS acl
    WHERE acl.privilege_type IN ('TRIGGER', 'REFERENCES')
    UNION ALL
    SELECT 4, pg_catalog.pg_describe_object('pg_catalog.pg_class'::pg_catalog.regclass, tables.oid, a.attnum),
        'can be given triggers by', acl.grantee
    FROM tables
    JOIN pg_catalog.pg_attribute a ON a.attrelid = tables.oid
    CROSS JOIN pg_catalog.aclexplode(a.attacl) AS acl
    WHERE acl.privilege_type = 'REFERENCES'
)
SELECT f.rank, f.what, f.how, strangers.name AS role, CASE strangers.oid WHEN 0 THEN 'PUBLIC' ELSE pg_catalog.quote_ident(strangers.name) END AS grantee
FROM findings f
JOIN strangers ON strangers.oid = f.role
UNION ALL
-- Triggers, rules and policies have no owner.
SELECT 5, pg_catalog.pg_describe_object(o.classid, o.oid, 0), 'was not created by', 'pgthaw', ''
FROM (
    SELECT 'pg_catalog.pg_trigger'::pg_catalog.regclass, t.oid, t.tgrelid FROM pg_catalog.pg_trigger t WHERE NOT t.tgisinternal
    UNION ALL
    SELECT 'pg_catalog.pg_rewrite'::pg_catalog.regclass, r.oid, r.ev_class FROM pg_catalog.pg_rewrite r WHERE r.ev_type <> '1'
    UNION ALL
    SELECT 'pg_catalog.pg_policy'::pg_catalog.regclass, p.oid, p.polrelid FROM pg_catalog.pg_policy p
) AS o (classid, oid, relation)
JOIN tables ON tables.oid = o.relation
ORDER BY 1, 2, 4
LIMIT 1
