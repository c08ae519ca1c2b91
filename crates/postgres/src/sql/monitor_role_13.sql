-- May this role see what pg_monitor may?
SELECT pg_catalog.pg_has_role(current_user, 'pg_monitor', 'USAGE')
