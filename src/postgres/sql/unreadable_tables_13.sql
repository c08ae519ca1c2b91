-- How many of the users' tables may this role not read? pg_prewarm asks for that. Objects below 16384 are the system's.
SELECT count(*) FROM pg_class WHERE relkind IN ('r', 'm') AND oid >= 16384 AND NOT has_table_privilege(oid, 'SELECT')
