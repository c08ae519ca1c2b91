-- Settings that sessions of a role or in a database begin with instead of the configuration files'.
SELECT
    pg_catalog.split_part(entry, '=', 1) AS name,
    pg_catalog.right(entry, -pg_catalog.strpos(entry, '=')) AS value
FROM pg_catalog.pg_db_role_setting
CROSS JOIN pg_catalog.unnest(setconfig) AS entry
