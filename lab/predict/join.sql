-- 200 neighbouring orders with their items: two ranges, each read by itself.
\set id random(1, 50000 * :scale - 199)
WITH picked AS MATERIALIZED (SELECT id FROM orders WHERE id BETWEEN :id AND :id + 199),
     theirs AS MATERIALIZED (SELECT order_id, price FROM items WHERE order_id BETWEEN :id AND :id + 199)
SELECT sum(price) FROM picked JOIN theirs ON order_id = id;
