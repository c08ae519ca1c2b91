\set aid random(1, 100000 * :scale)
SELECT sum(abalance) FROM pgbench_accounts WHERE aid BETWEEN :aid AND :aid + 500;
SELECT burn(:loops);
