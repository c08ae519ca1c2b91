-- How the server was built. Superusers alone may see pg_config.
SELECT
    pg_catalog.current_setting('debug_assertions') = 'on' AS has_assertions,
    (SELECT setting FROM pg_catalog.pg_config WHERE name = 'CFLAGS') AS compiler_flags
