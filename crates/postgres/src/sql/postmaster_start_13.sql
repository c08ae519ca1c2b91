SELECT extract(epoch FROM pg_catalog.pg_postmaster_start_time())::pg_catalog.float8
