-- Zipfian 1.07, the popular rows scattered over the table.
\set rank random_zipfian(1, 100000 * :scale, 1.07)
\set aid 1 + permute(:rank - 1, 100000 * :scale, 17)
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
