-- 99.9 % of transactions in the newest tenth of the accounts, the rest anywhere.
\set newest random(90000 * :scale + 1, 100000 * :scale)
\set any random(1, 90000 * :scale)
\set aid case when random(1, 1000) <= 999 then :newest else :any end
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
