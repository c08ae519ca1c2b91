-- The connected database and role.
SELECT current_database()::text, current_user::text
