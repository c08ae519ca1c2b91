-- When the server, and with it this session, read its configuration files last.
SELECT pg_catalog.pg_conf_load_time()::pg_catalog.text
