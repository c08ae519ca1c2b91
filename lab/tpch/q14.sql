-- TPC-H, query 14: the part of a month's revenue that promotions made. Its parameters are those of the validation run.
SELECT 100.0 * sum(l_extendedprice * (1 - l_discount)) FILTER (WHERE p_type LIKE 'PROMO%')
       / sum(l_extendedprice * (1 - l_discount)) AS promotions
FROM lineitem
JOIN part ON p_partkey = l_partkey
WHERE l_shipdate >= date '1995-09-01' AND l_shipdate < date '1995-10-01';
