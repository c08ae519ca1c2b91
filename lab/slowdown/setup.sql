-- Burns processor time and nothing else: it neither sleeps nor reads.
CREATE FUNCTION burn(loops integer) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    burnt bigint := 0;
BEGIN
    FOR i IN 1..loops LOOP
        burnt := (burnt * 31 + i) % 1000003;
    END LOOP;
    RETURN burnt;
END;
$$;
