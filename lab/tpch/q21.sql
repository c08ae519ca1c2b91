-- TPC-H, query 21: suppliers of a nation who alone kept an order waiting. Its parameters are those of the validation run.
SELECT s_name, count(*) AS waited
FROM supplier
JOIN nation ON n_nationkey = s_nationkey
JOIN lineitem AS late ON late.l_suppkey = s_suppkey
JOIN orders ON o_orderkey = late.l_orderkey
WHERE n_name = 'SAUDI ARABIA'
  AND o_orderstatus = 'F'
  AND late.l_receiptdate > late.l_commitdate
  AND EXISTS (
      SELECT FROM lineitem AS other
      WHERE other.l_orderkey = late.l_orderkey AND other.l_suppkey <> late.l_suppkey
  )
  AND NOT EXISTS (
      SELECT FROM lineitem AS other
      WHERE other.l_orderkey = late.l_orderkey AND other.l_suppkey <> late.l_suppkey
        AND other.l_receiptdate > other.l_commitdate
  )
GROUP BY s_name
ORDER BY waited DESC, s_name
LIMIT 100;
