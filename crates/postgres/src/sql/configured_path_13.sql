-- search_path of other sessions, from ALTER ROLE or ALTER DATABASE (the more specific first), else from configuration
-- files.
SELECT coalesce(
    (SELECT pg_catalog.right(entry, -12)
     FROM pg_catalog.pg_db_role_setting s
     CROSS JOIN pg_catalog.unnest(s.setconfig) AS entry
     WHERE pg_catalog.starts_with(entry, 'search_path=')
       AND (s.setdatabase = 0
            OR s.setdatabase = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()))
       AND (s.setrole = 0 OR s.setrole = (SELECT oid FROM pg_catalog.pg_roles WHERE rolname = current_user))
     ORDER BY s.setrole = 0, s.setdatabase = 0
     LIMIT 1),
    (SELECT setting
     FROM pg_catalog.pg_file_settings
     WHERE name = 'search_path' AND applied
     ORDER BY seqno DESC
     LIMIT 1))
