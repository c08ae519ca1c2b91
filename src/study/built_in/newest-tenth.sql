-- 99 % of the transactions in the newest tenth of the accounts, the others anywhere.
\set newest random(90000 * :scale + 1, 100000 * :scale)
\set any random(1, 100000 * :scale)
\set aid case when random(1, 100) <= 99 then :newest else :any end
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
