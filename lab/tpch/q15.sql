-- TPC-H, query 15: the suppliers who brought in the most within a quarter. Its parameters are those of the validation run.
WITH revenue AS (
    SELECT l_suppkey, sum(l_extendedprice * (1 - l_discount)) AS total
    FROM lineitem
    WHERE l_shipdate >= date '1996-01-01'
      AND l_shipdate < date '1996-04-01'
    GROUP BY l_suppkey
)
SELECT s_suppkey, s_name, s_address, s_phone, total
FROM supplier
JOIN revenue ON l_suppkey = s_suppkey
WHERE total = (SELECT max(total) FROM revenue)
ORDER BY s_suppkey;
