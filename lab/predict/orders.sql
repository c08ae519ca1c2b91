-- Orders with their items side by side, in the order of their numbers, and of customers who order now and then; and a small table.
CREATE TABLE orders (id int NOT NULL, customer int NOT NULL, note text NOT NULL);
CREATE TABLE items (order_id int NOT NULL, line int NOT NULL, price numeric NOT NULL, note text NOT NULL);
CREATE TABLE rates (id int NOT NULL, note text NOT NULL);
INSERT INTO orders SELECT i, 1 + (i::bigint * 7919 % (2500 * :scale))::int, repeat('o', 80) FROM generate_series(1, 50000 * :scale) i;
INSERT INTO items SELECT i, l, 9.99, repeat('i', 60) FROM generate_series(1, 50000 * :scale) i, generate_series(1, 3) l ORDER BY i, l;
INSERT INTO rates SELECT i, repeat('r', 100) FROM generate_series(1, 3000) i;
CREATE UNIQUE INDEX orders_id ON orders (id);
CREATE INDEX orders_customer ON orders (customer);
CREATE INDEX items_order ON items (order_id);
VACUUM ANALYZE orders, items, rates;
