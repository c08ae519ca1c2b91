-- 99 % of transactions in the newest tenth of the accounts, the rest anywhere. pgbench does not tell a script of one's own
-- the scale: change it here.
\set scale 100
\set newest random(90000 * :scale + 1, 100000 * :scale)
\set any random(1, 100000 * :scale)
\set aid case when random(1, 100) <= 99 then :newest else :any end
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
