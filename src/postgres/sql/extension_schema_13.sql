-- Where an extension is put: public, or pg_catalog in a database whose public schema was dropped.
SELECT coalesce(
    (SELECT quote_ident(nspname) FROM pg_namespace WHERE nspname = 'public'),
    'pg_catalog')
