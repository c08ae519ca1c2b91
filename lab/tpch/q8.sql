-- TPC-H, query 8: a nation's share of what a region bought of a type of part, by year. Its parameters are those of the validation run.
SELECT extract(year FROM o_orderdate) AS year,
       sum(l_extendedprice * (1 - l_discount)) FILTER (WHERE suppliers.n_name = 'BRAZIL')
           / sum(l_extendedprice * (1 - l_discount)) AS share
FROM part
JOIN lineitem ON l_partkey = p_partkey
JOIN supplier ON s_suppkey = l_suppkey
JOIN nation AS suppliers ON suppliers.n_nationkey = s_nationkey
JOIN orders ON o_orderkey = l_orderkey
JOIN customer ON c_custkey = o_custkey
JOIN nation AS customers ON customers.n_nationkey = c_nationkey
JOIN region ON r_regionkey = customers.n_regionkey
WHERE r_name = 'AMERICA'
  AND o_orderdate BETWEEN date '1995-01-01' AND date '1996-12-31'
  AND p_type = 'ECONOMY ANODIZED STEEL'
GROUP BY year
ORDER BY year;
