-- Settings that sessions of a role or in a database begin with instead of the configuration files'.
SELECT split_part(entry, '=', 1) AS name, substr(entry, strpos(entry, '=') + 1) AS value
FROM pg_db_role_setting, unnest(setconfig) AS entry
