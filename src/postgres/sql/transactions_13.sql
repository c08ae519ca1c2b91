-- Transactions of this database since the statistics began, and clients of it that are at work: between two quick statements
-- a backend is idle for a moment.
SELECT
    xact_commit + xact_rollback AS transactions,
    (SELECT count(*)
     FROM pg_stat_activity
     WHERE datname = current_database()
       AND backend_type = 'client backend'
       AND (state <> 'idle' OR state_change > clock_timestamp() - interval '1 second')
       AND pid <> pg_backend_pid()) AS clients
FROM pg_stat_database
WHERE datname = current_database()
