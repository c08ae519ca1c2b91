-- Some accounts are used far more often than others (zipfian, 1.07), and they lie anywhere in the table: the permutation
-- is the same in every run. pgbench does not tell a script of one's own the scale: change it here. Needs pgbench 14.
\set scale 100
\set rank random_zipfian(1, 100000 * :scale, 1.07)
\set aid 1 + permute(:rank - 1, 100000 * :scale, 42)
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
