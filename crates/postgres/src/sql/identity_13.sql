-- The connected database and role.
SELECT pg_catalog.current_database()::pg_catalog.text, current_user::pg_catalog.text
