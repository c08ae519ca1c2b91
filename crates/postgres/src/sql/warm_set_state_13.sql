-- The newest format comes first: another version of pgthaw may have added a row.
SELECT
    format,
    system_identifier,
    extract(epoch FROM taken_at)::pg_catalog.float8 AS taken_at,
    os,
    buffers,
    os_heat,
    written_bytes,
    extract(epoch FROM written_since)::pg_catalog.float8 AS written_since
FROM pgthaw.warm_set_state
ORDER BY format DESC
LIMIT 1
