-- What target_session_attrs asks of a server: is it a standby, and would a transaction be read-only?
SELECT
    pg_catalog.pg_is_in_recovery() AS in_recovery,
    pg_catalog.current_setting('transaction_read_only')::pg_catalog.bool AS is_read_only
