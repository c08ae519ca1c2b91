-- So many of a thousand transactions read a row of the newest tenth, the others any other row: --define often=, --define tenth=
\set hot random(9 * :tenth + 1, 10 * :tenth)
\set cold random(1, 9 * :tenth)
\set aid case when random(1, 1000) <= :often then :hot else :cold end
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
