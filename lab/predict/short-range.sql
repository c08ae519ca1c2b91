-- 20 neighbouring rows.
\set aid random(1, 100000 * :scale - 19)
SELECT aid, abalance FROM pgbench_accounts WHERE aid BETWEEN :aid AND :aid + 19;
