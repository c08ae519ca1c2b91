-- TPC-H, query 9: the profit with a kind of part, by the supplier's nation and by year. Its parameters are those of the validation run.
SELECT n_name, extract(year FROM o_orderdate) AS year,
       sum(l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity) AS profit
FROM part
JOIN lineitem ON l_partkey = p_partkey
JOIN partsupp ON ps_partkey = l_partkey AND ps_suppkey = l_suppkey
JOIN supplier ON s_suppkey = l_suppkey
JOIN nation ON n_nationkey = s_nationkey
JOIN orders ON o_orderkey = l_orderkey
WHERE p_name LIKE '%green%'
GROUP BY n_name, year
ORDER BY n_name, year DESC;
