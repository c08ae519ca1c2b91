CREATE TABLE customers (id int PRIMARY KEY, name text NOT NULL, city text NOT NULL);
CREATE TABLE orders (id int NOT NULL, customer_id int NOT NULL, ordered_at timestamptz NOT NULL, total numeric NOT NULL, note text);
CREATE TABLE order_lines (order_id int NOT NULL, line int NOT NULL, product text NOT NULL, quantity int NOT NULL, price numeric NOT NULL);
INSERT INTO customers SELECT i, 'customer ' || i, 'city ' || i % 100 FROM generate_series(1, 20000) AS i;
INSERT INTO orders SELECT i, 1 + (i::bigint * 7919) % 20000, timestamptz '2026-11-01' - i * interval '1 minute', i % 1000, repeat('x', 80) FROM generate_series(1, 100000) AS i;
INSERT INTO order_lines SELECT i, line, 'product ' || (i * 7 + line) % 5000, 1 + line, 5 + i % 50 FROM generate_series(1, 100000) AS i, generate_series(1, 6) AS line ORDER BY line, i;
ALTER TABLE orders ADD PRIMARY KEY (id), ADD FOREIGN KEY (customer_id) REFERENCES customers;
ALTER TABLE order_lines ADD PRIMARY KEY (order_id, line), ADD FOREIGN KEY (order_id) REFERENCES orders;
CREATE INDEX ON orders (customer_id);
