-- TPC-H, query 1: what was shipped until a day, in sums. Its parameters are those of the validation run.
SELECT l_returnflag, l_linestatus, sum(l_quantity) AS quantity, sum(l_extendedprice) AS base,
       sum(l_extendedprice * (1 - l_discount)) AS discounted,
       sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS charged,
       avg(l_quantity), avg(l_extendedprice), avg(l_discount), count(*)
FROM lineitem
WHERE l_shipdate <= date '1998-12-01' - interval '90 days'
GROUP BY l_returnflag, l_linestatus
ORDER BY l_returnflag, l_linestatus;
