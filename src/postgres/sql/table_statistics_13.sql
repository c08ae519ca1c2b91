-- Statistics of each table of the connected database, with its size, indexes and TOAST included.
SELECT 'pg_stat_user_tables' AS view,
       (to_jsonb(s) || jsonb_build_object('total_bytes', pg_total_relation_size(s.relid)))::text AS counters
FROM pg_stat_user_tables s
