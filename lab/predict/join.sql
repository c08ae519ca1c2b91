-- 200 neighbouring orders with their items: two ranges, joined by a hash.
\set id random(1, 50000 * :scale - 199)
SELECT sum(price) FROM orders JOIN items ON order_id = id
WHERE id BETWEEN :id AND :id + 199 AND order_id BETWEEN :id AND :id + 199;
