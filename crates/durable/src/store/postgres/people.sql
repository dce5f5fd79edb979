-- What is there for people and for their programs: see the header of mod.rs. All of it can be made
-- again over what an earlier version has made.

CREATE OR REPLACE FUNCTION ms_of(timestamptz) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT greatest(0, ((extract(epoch FROM $1) * 1000000)::bigint + 999) / 1000)
$$;

-- Of an index, so it goes by no setting.
CREATE OR REPLACE FUNCTION time_of(bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$
    -- Until the year 10000.
    SELECT CASE WHEN $1 < 253402300800000
        THEN (timestamp 'epoch' + $1 * interval '1 millisecond') AT TIME ZONE 'UTC'
        ELSE 'infinity'::timestamptz END
$$;

CREATE OR REPLACE FUNCTION name_of(shard int, first_due bigint, number bigint) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT $1 || '-' || lpad(to_hex($2), 16, '0') || lpad(to_hex($3), 16, '0')
$$;

CREATE OR REPLACE FUNCTION text_of(bytea) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
    RETURN convert_from($1, 'UTF8');
EXCEPTION WHEN OTHERS THEN
    RETURN '\x' || encode($1, 'hex');
END $$;

-- Of an index, too. What has only characters of ASCII and no backslash is its own escape.
CREATE OR REPLACE FUNCTION readable(bytea) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN strpos(encode($1, 'escape'), '\') = 0 THEN encode($1, 'escape')
        ELSE {schema}.text_of($1) END
$$;

-- The shard of a key, as instances compute it.
CREATE OR REPLACE FUNCTION shard_of(bytea) RETURNS int LANGUAGE sql STABLE AS $$
    SELECT ((('x' || encode(substr(sha256($1), 1, 4), 'hex'))::bit(32)::bigint
        & 4294967295)::bigint % (SELECT count(*) FROM {schema}.shards))::int
$$;

-- The checksum of a row, with all that it has but the shard.
CREATE OR REPLACE FUNCTION checksum_of(due bigint, number bigint, first_due bigint, attempt bigint,
    crashes bigint, tried boolean, key bytea, payload bytea, errors text, error text)
RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
    SELECT substr(sha256(int8send($1) || int8send($2) || int8send($3) || int8send($4)
        || int8send($5) || boolsend($6)
        || int8send(coalesce(length($7), -1)) || coalesce($7, '')
        || int8send(length($8)) || $8
        || int8send(octet_length(convert_to($9, 'UTF8'))) || convert_to($9, 'UTF8')
        || convert_to(coalesce($10, ''), 'UTF8')), 1, 8)
$$;

CREATE OR REPLACE FUNCTION cancel(key bytea) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER
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

-- Numbers are of the session that began last, in the half that no instance uses. What other functions
-- compute stands here once more, because a call of one would take longer than all else: the shard,
-- `checksum_of`, and `cancel`.
CREATE OR REPLACE FUNCTION schedule_ms(bigint, payload bytea, key bytea) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path TO {schema}, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    hash bytea := sha256($3);
    checksum bytea;
    new_number bigint;
    new_shard bigint;
    gone_due bigint;
    gone_number bigint;
BEGIN
    SELECT (sessions << 40) + (salt + nextval('numbers')) % (1::bigint << 39), count.shards
        INTO new_number, new_shard FROM meta, (SELECT count(*) AS shards FROM shards) AS count;
    new_shard := CASE WHEN $3 IS NULL THEN new_number ELSE
        ('x' || encode(substr(hash, 1, 4), 'hex'))::bit(32)::bigint & 4294967295 END % new_shard;
    checksum := substr(sha256(int8send($1) || int8send(new_number) || int8send($1) || int8send(1)
        || int8send(0) || boolsend(false) || int8send(coalesce(length($3), -1))
        || coalesce($3, '') || int8send(length($2)) || $2 || int8send(0)), 1, 8);
    IF $3 IS NULL THEN
        INSERT INTO records (shard, due, number, first_due, attempt, crashes, tried, payload,
                checksum)
            VALUES (new_shard, $1, new_number, $1, 1, 0, false, $2, checksum);
    ELSE LOOP
        DELETE FROM records WHERE shard = new_shard AND records.key IS NOT NULL
            AND sha256(records.key) = hash AND records.key = $3 RETURNING due, number INTO gone_due, gone_number;
        IF FOUND THEN
            PERFORM pg_notify('{channel}',
                format('gone %s %s %s', new_shard, gone_due, gone_number));
        END IF;
        INSERT INTO records (shard, due, number, first_due, attempt, crashes, tried, key, payload,
                checksum)
            VALUES (new_shard, $1, new_number, $1, 1, 0, false, $3, $2, checksum)
            ON CONFLICT (shard, sha256(records.key)) WHERE records.key IS NOT NULL DO NOTHING;
        -- Otherwise another transaction has just scheduled one with this key.
        EXIT WHEN FOUND;
    END LOOP; END IF;
    PERFORM pg_notify('{channel}', format('there %s %s %s', new_shard, $1, new_number));
    RETURN name_of(new_shard::int, $1, new_number);
END $$;

CREATE OR REPLACE FUNCTION schedule(due timestamptz, payload bytea, key bytea DEFAULT NULL)
RETURNS text
LANGUAGE sql AS $$ SELECT {schema}.schedule_ms({schema}.ms_of($1), $2, $3) $$;

CREATE OR REPLACE FUNCTION schedule(due timestamptz, payload text, key text DEFAULT NULL)
RETURNS text
LANGUAGE sql AS $$
    SELECT {schema}.schedule_ms({schema}.ms_of($1), convert_to($2, 'UTF8'), convert_to($3, 'UTF8'))
$$;

CREATE OR REPLACE FUNCTION cancel(key text) RETURNS boolean
LANGUAGE sql AS $$ SELECT {schema}.cancel(convert_to($1, 'UTF8')) $$;

-- What people ask by: a key, or a time. The second and the third ask for values of any length.
CREATE INDEX IF NOT EXISTS records_by_time ON records (time_of(due));
CREATE INDEX IF NOT EXISTS records_by_text ON records USING hash (readable(key));

CREATE OR REPLACE VIEW timers AS SELECT name_of(shard, first_due, number) AS id,
    time_of(due) AS due,
    readable(key) AS key, readable(payload) AS payload, attempt, crashes, tried,
    time_of(first_due) AS first_due, shard, due AS due_ms, number, errors FROM records;

CREATE OR REPLACE VIEW dead AS SELECT name_of(shard, first_due, number) AS id, error,
    readable(key) AS key, readable(payload) AS payload, attempt, crashes,
    time_of(first_due) AS first_due, time_of(due) AS last_due, shard, errors FROM dead_letters;

CREATE OR REPLACE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path TO {schema}, pg_temp AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        DELETE FROM records
            WHERE shard = OLD.shard AND due = OLD.due_ms AND number = OLD.number;
    ELSIF to_jsonb(NEW) - 'due' <> to_jsonb(OLD) - 'due' THEN
        RAISE EXCEPTION 'of a timer, due alone can be changed' USING ERRCODE = '0A000';
    ELSE
        -- Its handler may begin until this is committed.
        UPDATE records SET due = ms_of(NEW.due), tried = true,
                checksum = checksum_of(ms_of(NEW.due), number, first_due, attempt, crashes, true,
                    key, payload, errors, NULL)
            WHERE shard = OLD.shard AND due = OLD.due_ms AND number = OLD.number;
    END IF;
    IF NOT FOUND THEN RETURN NULL; END IF;
    PERFORM pg_notify('{channel}', format('gone %s %s %s', OLD.shard, OLD.due_ms, OLD.number));
    IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
    PERFORM pg_notify('{channel}',
        format('there %s %s %s', OLD.shard, ms_of(NEW.due), OLD.number));
    RETURN NEW;
END $$;

DROP TRIGGER IF EXISTS touched ON timers;
CREATE TRIGGER touched INSTEAD OF UPDATE OR DELETE ON timers
    FOR EACH ROW EXECUTE FUNCTION touch();

-- Sees that no instance runs, and takes all tables before any of them is read.
CREATE OR REPLACE FUNCTION have_all() RETURNS void LANGUAGE plpgsql
SET search_path TO {schema}, pg_temp AS $$
BEGIN
    LOCK TABLE instances, shards, writers, records, dead_letters IN ACCESS EXCLUSIVE MODE;
    IF EXISTS (SELECT FROM instances WHERE expires > clock_timestamp())
        OR EXISTS (SELECT FROM shards WHERE holder IS NOT NULL AND expires > clock_timestamp())
    THEN
        RAISE EXCEPTION 'an instance is running: stop all of them first' USING ERRCODE = '55006';
    END IF;
END $$;

-- Has the cluster n shards from now on, while no instance runs. A timer with a key goes where its
-- key belongs, another one to its shard's number modulo n, where its id is looked for. What holders
-- from before may still write is refused by the fences.
CREATE OR REPLACE FUNCTION reshard(n int) RETURNS void LANGUAGE plpgsql
SET search_path TO {schema}, pg_temp AS $$
DECLARE
    last record;
BEGIN
    IF n NOT BETWEEN 1 AND 10000 THEN
        RAISE EXCEPTION 'there can be 1 to 10000 shards' USING ERRCODE = '22023';
    END IF;
    PERFORM have_all();
    SELECT max(fence) + 1 AS fence, max(expires) AS served INTO last FROM shards;
    DELETE FROM shards;
    DELETE FROM writers;
    INSERT INTO shards SELECT shard, last.fence, NULL, last.served
        FROM generate_series(0, n - 1) AS shard;
    INSERT INTO writers SELECT shard FROM shards;
    UPDATE records SET shard = CASE WHEN key IS NULL THEN shard % n ELSE shard_of(key) END;
    UPDATE dead_letters SET shard = shard % n;
END $$;
