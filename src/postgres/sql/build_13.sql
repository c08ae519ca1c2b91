-- How the server was built. Superusers alone may see pg_config.
SELECT
    current_setting('debug_assertions') = 'on' AS has_assertions,
    (SELECT setting FROM pg_config WHERE name = 'CFLAGS') AS compiler_flags
