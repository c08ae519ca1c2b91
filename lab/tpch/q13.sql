-- TPC-H, query 13: how many customers have how many orders, those of one kind left out. Its parameters are those of the validation run.
WITH counted AS (
    SELECT c_custkey, count(o_orderkey) AS orders
    FROM customer
    LEFT JOIN orders ON o_custkey = c_custkey AND o_comment NOT LIKE '%special%requests%'
    GROUP BY c_custkey
)
SELECT orders, count(*) AS customers
FROM counted
GROUP BY orders
ORDER BY customers DESC, orders DESC;
