-- Where an extension is put: public, or pg_catalog in a database whose public schema was dropped.
SELECT coalesce(
    (SELECT pg_catalog.quote_ident(nspname) FROM pg_catalog.pg_namespace WHERE nspname = 'public'),
    'pg_catalog')
