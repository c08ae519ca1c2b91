-- The newest 50 before a moment.
\set aid random(1000, 100000 * :scale)
SELECT aid, abalance FROM pgbench_accounts WHERE aid <= :aid ORDER BY aid DESC LIMIT 50;
