-- When the server, and with it this session, read its configuration files last.
SELECT pg_conf_load_time()::text
