INSERT INTO pgthaw.warm_set_state (format, taken_at, os, buffers, os_heat, written_bytes, written_since, system_identifier)
VALUES ($1, pg_catalog.to_timestamp($2), $3, $4, $5, $6, pg_catalog.to_timestamp($7), $8)
ON CONFLICT (format) DO UPDATE SET
    taken_at = excluded.taken_at,
    os = excluded.os,
    buffers = excluded.buffers,
    os_heat = excluded.os_heat,
    written_bytes = excluded.written_bytes,
    written_since = excluded.written_since,
    system_identifier = excluded.system_identifier
