-- What is there for people and for their programs: see the header of mod.rs.

CREATE FUNCTION ms_of(timestamptz) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT greatest(0, ceil((extract(epoch FROM $1) * 1000000)::bigint / 1000.0)::bigint)
$$;

CREATE FUNCTION time_of(bigint) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    -- Until the year 10000.
    SELECT CASE WHEN $1 < 253402300800000
        THEN timestamptz 'epoch' + $1 * interval '1 millisecond' ELSE 'infinity' END
$$;

CREATE FUNCTION name_of(shard int, first_due bigint, number bigint) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT $1 || '-' || lpad(to_hex($2), 16, '0') || lpad(to_hex($3), 16, '0')
$$;

CREATE FUNCTION readable(bytea) RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN convert_from($1, 'UTF8');
EXCEPTION WHEN OTHERS THEN
    RETURN '\x' || encode($1, 'hex');
END $$;

-- The shard of a key: its CRC-32, as instances compute it, by halves of bytes.
CREATE FUNCTION shard_of(bytea) RETURNS int LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path TO {schema}, pg_temp AS $$
DECLARE
    crc bigint := 4294967295;
    half bigint[] := '{0, 498536548, 997073096, 651767980, 1994146192, 1802195444, 1303535960,
        1342533948, 3988292384, 4027552580, 3604390888, 3412177804, 2607071920, 2262029012,
        2685067896, 3183342108}';
BEGIN
    FOR i IN 0 .. length($1) - 1 LOOP
        crc := crc # get_byte($1, i);
        crc := (crc >> 4) # half[1 + (crc & 15)];
        crc := (crc >> 4) # half[1 + (crc & 15)];
    END LOOP;
    RETURN (crc # 4294967295) % (SELECT count(*) FROM shards);
END $$;

CREATE FUNCTION cancel(key bytea) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER
SET search_path TO {schema}, pg_temp AS $$
DECLARE
    its_shard int := shard_of($1);
    gone records;
BEGIN
    DELETE FROM records WHERE records.shard = its_shard AND records.key IS NOT NULL
        AND sha256(records.key) = sha256($1) AND records.key = $1 RETURNING * INTO gone;
    IF FOUND THEN
        PERFORM pg_notify('{channel}', format('gone %s %s %s', its_shard, gone.due, gone.number));
    END IF;
    RETURN gone.number IS NOT NULL;
END $$;

-- Numbers are of the session that began last, in the half that no instance uses.
CREATE FUNCTION schedule_ms(bigint, payload bytea, key bytea) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path TO {schema}, pg_temp AS $$
#variable_conflict use_column
DECLARE
    number bigint := (SELECT (sessions << 40) + (salt + nextval('numbers')) % (1::bigint << 39)
        FROM meta);
    shard int := CASE WHEN $3 IS NULL THEN number % (SELECT count(*) FROM shards)
        ELSE shard_of($3) END;
BEGIN
    LOOP
        IF $3 IS NOT NULL THEN PERFORM cancel($3); END IF;
        INSERT INTO records VALUES (shard, $1, number, $1, 1, 0, false, $3, $2, NULL)
            ON CONFLICT (shard, sha256(key)) WHERE key IS NOT NULL DO NOTHING;
        -- Otherwise another transaction has just scheduled one with this key.
        EXIT WHEN FOUND;
    END LOOP;
    PERFORM pg_notify('{channel}', format('there %s %s %s', shard, $1, number));
    RETURN name_of(shard, $1, number);
END $$;

CREATE FUNCTION schedule(due timestamptz, payload bytea, key bytea DEFAULT NULL) RETURNS text
LANGUAGE sql AS $$ SELECT {schema}.schedule_ms({schema}.ms_of($1), $2, $3) $$;

CREATE FUNCTION schedule(due timestamptz, payload text, key text DEFAULT NULL) RETURNS text
LANGUAGE sql AS $$
    SELECT {schema}.schedule_ms({schema}.ms_of($1), convert_to($2, 'UTF8'), convert_to($3, 'UTF8'))
$$;

CREATE FUNCTION cancel(key text) RETURNS boolean
LANGUAGE sql AS $$ SELECT {schema}.cancel(convert_to($1, 'UTF8')) $$;

CREATE VIEW timers AS SELECT name_of(shard, first_due, number) AS id, time_of(due) AS due,
    readable(key) AS key, readable(payload) AS payload, attempt, crashes, tried,
    time_of(first_due) AS first_due, shard, due AS due_ms, number FROM records;

CREATE VIEW dead AS SELECT name_of(shard, first_due, number) AS id, error,
    readable(key) AS key, readable(payload) AS payload, attempt, crashes,
    time_of(first_due) AS first_due, time_of(due) AS last_due, shard FROM dead_letters;

CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path TO {schema}, pg_temp AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        DELETE FROM records
            WHERE shard = OLD.shard AND due = OLD.due_ms AND number = OLD.number;
    ELSIF to_jsonb(NEW) - 'due' <> to_jsonb(OLD) - 'due' THEN
        RAISE EXCEPTION 'of a timer, due alone can be changed' USING ERRCODE = '0A000';
    ELSE
        -- Its handler may begin until this is committed.
        UPDATE records SET due = ms_of(NEW.due), tried = true, checksum = NULL
            WHERE shard = OLD.shard AND due = OLD.due_ms AND number = OLD.number;
    END IF;
    IF NOT FOUND THEN RETURN NULL; END IF;
    PERFORM pg_notify('{channel}', format('gone %s %s %s', OLD.shard, OLD.due_ms, OLD.number));
    IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
    PERFORM pg_notify('{channel}',
        format('there %s %s %s', OLD.shard, ms_of(NEW.due), OLD.number));
    RETURN NEW;
END $$;

CREATE TRIGGER touched INSTEAD OF UPDATE OR DELETE ON timers
    FOR EACH ROW EXECUTE FUNCTION touch();

-- Has the cluster n shards from now on, while no instance runs. A timer with a key goes where its
-- key belongs, another one to its shard's number modulo n, where its id is looked for. What holders
-- from before may still write is refused by the fences. All is locked before any of it is read.
CREATE FUNCTION reshard(n int) RETURNS void LANGUAGE plpgsql
SET search_path TO {schema}, pg_temp AS $$
DECLARE
    last record;
BEGIN
    IF n NOT BETWEEN 1 AND 10000 THEN
        RAISE EXCEPTION 'there can be 1 to 10000 shards' USING ERRCODE = '22023';
    END IF;
    LOCK TABLE instances, shards, writers, records, dead_letters IN ACCESS EXCLUSIVE MODE;
    IF EXISTS (SELECT FROM instances WHERE expires > clock_timestamp())
        OR EXISTS (SELECT FROM shards WHERE holder IS NOT NULL AND expires > clock_timestamp())
    THEN
        RAISE EXCEPTION 'an instance is running: stop all of them first' USING ERRCODE = '55006';
    END IF;
    SELECT max(fence) + 1 AS fence, max(expires) AS served INTO last FROM shards;
    DELETE FROM shards;
    DELETE FROM writers;
    INSERT INTO shards SELECT shard, last.fence, NULL, last.served
        FROM generate_series(0, n - 1) AS shard;
    INSERT INTO writers SELECT shard FROM shards;
    UPDATE records SET shard = CASE WHEN key IS NULL THEN shard % n ELSE shard_of(key) END;
    UPDATE dead_letters SET shard = shard % n;
END $$;
