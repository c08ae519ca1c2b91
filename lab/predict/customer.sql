-- All orders of a customer, scattered over the table: a second index whose order is not that of the rows.
\set customer random(1, 2500 * :scale)
SELECT count(note) FROM orders WHERE customer = :customer;
