-- A small table from end to end, beside an account and an order.
\set aid random(1, 100000 * :scale)
\set id random(1, 50000 * :scale)
SELECT count(*) FROM rates WHERE note LIKE '%x%';
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
SELECT note FROM orders WHERE id = :id;
