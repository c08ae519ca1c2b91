-- TPC-H, query 22: customers with money who have ordered nothing, by the country of their telephone. Its parameters are those of the validation run.
WITH abroad AS (
    SELECT c_custkey, substring(c_phone FROM 1 FOR 2) AS country, c_acctbal
    FROM customer
    WHERE substring(c_phone FROM 1 FOR 2) IN ('13', '31', '23', '29', '30', '18', '17')
)
SELECT country, count(*) AS customers, sum(c_acctbal) AS balance
FROM abroad
WHERE c_acctbal > (SELECT avg(c_acctbal) FROM abroad WHERE c_acctbal > 0)
  AND NOT EXISTS (SELECT FROM orders WHERE o_custkey = c_custkey)
GROUP BY country
ORDER BY country;
