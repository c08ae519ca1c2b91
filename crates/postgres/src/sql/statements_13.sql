-- Excludes I/O waits, if track_io_timing is on. Since 17 the I/O columns begin with "shared_".
SELECT
    coalesce(pg_catalog.sum(calls), 0)::pg_catalog.float8 AS calls,
    coalesce(pg_catalog.sum(total_exec_time - {prefix}blk_read_time - {prefix}blk_write_time), 0)::pg_catalog.float8 AS milliseconds
FROM {schema}.pg_stat_statements
WHERE dbid = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())
  AND query ~* '^\s*(select|insert|update|delete|with|merge)'
