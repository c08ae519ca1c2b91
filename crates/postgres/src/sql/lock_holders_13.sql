-- Who holds locks that others wait for: what he does, and how many wait for him. Who waits for a lock himself is among them. One that is
-- not there any more, or is a prepared transaction (its pid is 0), has nothing but its pid.
SELECT blocker.pid, blocker.waiters, holder.backend_type, holder.state, holder.query, holder.wait_event_type, holder.wait_event
FROM (
    SELECT one.pid, pg_catalog.count(*) AS waiters
    FROM pg_catalog.pg_stat_get_activity(NULL) AS waiter
    CROSS JOIN LATERAL pg_catalog.unnest(pg_catalog.pg_blocking_pids(waiter.pid)) AS one (pid)
    WHERE waiter.wait_event_type = 'Lock'
    GROUP BY one.pid
) AS blocker
LEFT JOIN pg_catalog.pg_stat_get_activity(NULL) AS holder ON holder.pid = blocker.pid
