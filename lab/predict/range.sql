-- 600 neighbouring rows, each of them sent to the client.
\set aid random(1, 100000 * :scale - 599)
SELECT aid, abalance FROM pgbench_accounts WHERE aid BETWEEN :aid AND :aid + 599;
