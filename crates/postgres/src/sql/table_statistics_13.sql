-- total_bytes includes indexes and TOAST.
SELECT 'pg_stat_user_tables' AS view,
       (pg_catalog.to_jsonb(s)
           || pg_catalog.jsonb_build_object('total_bytes', pg_catalog.pg_total_relation_size(s.relid))
       )::pg_catalog.text AS counters
FROM pg_catalog.pg_stat_user_tables s
