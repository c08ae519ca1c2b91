-- TPC-H, query 7: what two nations shipped to each other, by year. Its parameters are those of the validation run.
SELECT suppliers.n_name AS from_nation, customers.n_name AS to_nation, extract(year FROM l_shipdate) AS year,
       sum(l_extendedprice * (1 - l_discount)) AS revenue
FROM lineitem
JOIN supplier ON s_suppkey = l_suppkey
JOIN nation AS suppliers ON suppliers.n_nationkey = s_nationkey
JOIN orders ON o_orderkey = l_orderkey
JOIN customer ON c_custkey = o_custkey
JOIN nation AS customers ON customers.n_nationkey = c_nationkey
WHERE (suppliers.n_name, customers.n_name) IN (('FRANCE', 'GERMANY'), ('GERMANY', 'FRANCE'))
  AND l_shipdate BETWEEN date '1995-01-01' AND date '1996-12-31'
GROUP BY from_nation, to_nation, year
ORDER BY from_nation, to_nation, year;
