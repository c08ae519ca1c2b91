-- File names contain the writer's pid. Excludes shared files of parallel queries, which the server does not list.
SELECT CAST(pg_catalog.regexp_replace(file.name, '^pgsql_tmp([0-9]+).*', '\1') AS pg_catalog.int4) AS pid,
       pg_catalog.count(*) AS files, CAST(pg_catalog.sum(file.size) AS pg_catalog.int8) AS bytes
FROM pg_catalog.pg_tablespace AS space
CROSS JOIN LATERAL pg_catalog.pg_ls_tmpdir(space.oid) AS file
WHERE space.spcname <> 'pg_global' AND file.name ~ '^pgsql_tmp[0-9]{1,9}\.'
GROUP BY 1
