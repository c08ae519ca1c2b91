-- How many accounts a branch has: the index answers alone.
\set bid random(0, :scale - 1)
SELECT count(*) FROM pgbench_accounts WHERE aid BETWEEN :bid * 100000 + 1 AND (:bid + 1) * 100000;
