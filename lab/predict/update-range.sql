-- Reads 100 neighbouring accounts and changes one of them.
\set aid random(1, 100000 * :scale - 99)
SELECT sum(abalance) FROM pgbench_accounts WHERE aid BETWEEN :aid AND :aid + 99;
UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :aid;
