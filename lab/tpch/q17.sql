-- TPC-H, query 17: what small orders of a part bring in a year. Its parameters are those of the validation run.
SELECT sum(l_extendedprice) / 7.0 AS yearly
FROM lineitem
JOIN part ON p_partkey = l_partkey
WHERE p_brand = 'Brand#23'
  AND p_container = 'MED BOX'
  AND l_quantity < (SELECT 0.2 * avg(l_quantity) FROM lineitem AS all_of_it WHERE all_of_it.l_partkey = p_partkey);
