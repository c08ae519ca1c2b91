-- TPC-H, query 4: orders of a quarter of which something came late. Its parameters are those of the validation run.
SELECT o_orderpriority, count(*) AS orders
FROM orders
WHERE o_orderdate >= date '1993-07-01'
  AND o_orderdate < date '1993-10-01'
  AND EXISTS (SELECT FROM lineitem WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate)
GROUP BY o_orderpriority
ORDER BY o_orderpriority;
