-- How many of the users' tables may this role not read? pg_prewarm asks for that. Objects below 16384 are the system's.
SELECT pg_catalog.count(*)
FROM pg_catalog.pg_class
WHERE relkind IN ('r', 'm') AND oid >= 16384 AND NOT pg_catalog.has_table_privilege(oid, 'SELECT')
