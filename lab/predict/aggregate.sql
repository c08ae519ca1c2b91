-- The sum over 5000 neighbouring rows.
\set aid random(1, 100000 * :scale - 4999)
SELECT sum(abalance) FROM pgbench_accounts WHERE aid BETWEEN :aid AND :aid + 4999;
