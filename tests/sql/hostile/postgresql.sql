-- [refused] insert
INSERT INTO pets (name) VALUES ('x')

-- [refused] insert and return
INSERT INTO pets (name) VALUES ('x') RETURNING id

-- [refused] upsert
INSERT INTO pets (id, name) VALUES (1, 'x') ON CONFLICT (id) DO UPDATE SET name = 'y'

-- [refused] update
UPDATE pets SET name = 'x'

-- [refused] delete
DELETE FROM pets

-- [refused] truncate
TRUNCATE pets

-- [refused] merge
MERGE INTO pets USING owners ON pets.id = owners.id WHEN MATCHED THEN DELETE

-- [refused] a write inside WITH
WITH gone AS (DELETE FROM pets RETURNING *) SELECT * FROM gone

-- [refused] an update inside WITH
WITH changed AS (UPDATE pets SET name = 'x' RETURNING id) SELECT count(*) FROM changed

-- [refused] select into a table
SELECT * INTO evil FROM pets

-- [refused] select into a temporary table
SELECT * INTO TEMP evil FROM pets

-- [refused] lock rows
SELECT * FROM pets FOR UPDATE

-- [refused] lock rows a little
SELECT * FROM pets FOR KEY SHARE

-- [refused] lock rows inside
SELECT * FROM (SELECT * FROM pets FOR SHARE) AS held

-- [refused] lock a table
LOCK TABLE pets

-- [refused] create table
CREATE TABLE evil (a int)

-- [refused] create table from a query
CREATE TABLE evil AS SELECT * FROM pets

-- [refused] temporary table
CREATE TEMP TABLE evil (a int)

-- [refused] view
CREATE VIEW evil AS SELECT 1

-- [refused] index
CREATE INDEX evil ON pets (age)

-- [refused] function
CREATE FUNCTION evil() RETURNS int LANGUAGE sql AS 'SELECT 1'

-- [refused] schema
CREATE SCHEMA evil

-- [refused] role
CREATE ROLE evil SUPERUSER

-- [refused] grant
GRANT ALL ON pets TO PUBLIC

-- [refused] trigger
CREATE TRIGGER evil BEFORE UPDATE ON pets EXECUTE FUNCTION suppress_redundant_updates_trigger()

-- [refused] extension
CREATE EXTENSION IF NOT EXISTS dblink

-- [refused unproven] database
CREATE DATABASE evil

-- [refused] drop table
DROP TABLE pets CASCADE

-- [refused unproven] drop database
DROP DATABASE empty

-- [refused] alter table
ALTER TABLE pets ADD COLUMN evil int

-- [refused unproven] alter system
ALTER SYSTEM SET work_mem = '1GB'

-- [refused] comment on a table
COMMENT ON TABLE pets IS 'evil'

-- [refused unproven] vacuum
VACUUM

-- [refused] analyze
ANALYZE pets

-- [refused] cluster
CLUSTER pets USING pets_pkey

-- [refused] reindex
REINDEX TABLE pets

-- [refused] refresh
REFRESH MATERIALIZED VIEW pet_count

-- [refused] copy to a file
COPY pets TO '{folder}/evil'

-- [refused] copy to a program
COPY pets TO PROGRAM 'cat > {folder}/evil'

-- [refused] copy from a program
COPY pets (name) FROM PROGRAM 'echo x'

-- [refused unproven] copy to the client
COPY pets TO STDOUT

-- [refused] anonymous block
DO $$ BEGIN DELETE FROM pets; END $$

-- [refused unproven] anonymous block that ends the transaction first
DO $$ BEGIN COMMIT; DELETE FROM pets; COMMIT; END $$

-- [refused unproven] procedure that ends the transaction first
CALL grow_all()

-- [refused] prepare a write
PREPARE evil AS DELETE FROM pets

-- [refused unproven] execute what was prepared
EXECUTE evil

-- [refused] listen
LISTEN evil

-- [refused] notify
NOTIFY evil

-- [refused] session setting
SET statement_timeout = 0

-- [refused] session setting that allows writing
SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE

-- [refused] transaction setting that allows writing
SET TRANSACTION READ WRITE

-- [refused] reset
RESET ALL

-- [refused unproven] discard
DISCARD ALL

-- [refused] other role
SET ROLE postgres

-- [refused] begin
BEGIN

-- [refused] commit
COMMIT

-- [refused unproven] rollback to a savepoint
ROLLBACK TO SAVEPOINT evil

-- [refused] cursor that outlives the transaction
DECLARE evil CURSOR WITH HOLD FOR SELECT * FROM pets

-- [refused] explain that runs a write
EXPLAIN ANALYZE DELETE FROM pets

-- [refused] show
SHOW ALL

-- [refused] load a library
LOAD 'plpgsql'

-- [refused unproven] checkpoint
CHECKPOINT

-- [refused] two statements
SELECT 1; DELETE FROM pets

-- [refused] end the transaction, write, and look harmless
COMMIT; DELETE FROM pets; SELECT 1

-- [refused] a second statement after a query that DECLARE accepts
SELECT 1; COMMIT; DELETE FROM pets

-- [refused] a second statement behind nested comments
SELECT 1 /* a /* b */ c */ ; -- d
DELETE FROM pets

-- [refused] a write behind a comment
/* SELECT */ DELETE FROM pets -- SELECT

-- [refused unproven] a bracket to leave the cursor's query
SELECT 1) ; DELETE FROM pets; SELECT (1

-- [refused] function that writes
SELECT grow()

-- [refused] function that writes, in a condition
SELECT * FROM pets WHERE grow() > 0

-- [refused] next value of a sequence
SELECT nextval('pets_id_seq')

-- [refused] value of a sequence
SELECT setval('pets_id_seq', 1000)

-- [refused] make the transaction writable from inside, then write
SELECT set_config('transaction_read_only', 'off', true), grow()

-- [refused unproven] a write as text
SELECT query_to_xml('DELETE FROM pets', true, true, '')

-- [refused unproven] prepare a transaction for later
PREPARE TRANSACTION 'evil'

-- [undone] switch off the default of the session
SELECT set_config('default_transaction_read_only', 'off', false)

-- [undone] become another role for the session
SELECT set_config('role', 'none', false)

-- [undone] lift the deadline of the next statement
SELECT set_config('statement_timeout', '0', false)

-- [undone] lock that outlives the transaction
SELECT pg_advisory_lock(7)

-- [undone] notice to other sessions
SELECT pg_notify('evil', 'x')

-- [undone] file of a snapshot
SELECT pg_export_snapshot()

-- [undone] large object
SELECT lo_from_bytea(0, 'evil')

-- [undone unproven] kill oneself
SELECT pg_terminate_backend(pg_backend_pid())

-- [deadline] sleep
SELECT pg_sleep(60)

-- [deadline] lift the deadline, then sleep
SELECT set_config('statement_timeout', '0', false), pg_sleep(60)

-- [deadline] lift the deadline in an earlier row, then sleep
SELECT CASE WHEN n = 1 THEN set_config('statement_timeout', '0', false) ELSE pg_sleep(60)::text END
FROM generate_series(1, 2) AS n

-- [deadline] sleep in text
SELECT query_to_xml('SELECT pg_sleep(60)', true, true, '')

-- [deadline] endless recursion
WITH RECURSIVE r (n) AS (SELECT 1::bigint UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r

-- [deadline] a long series
SELECT count(*) FROM generate_series(1, 100000000000)

-- [deadline] cross join
SELECT count(*) FROM pets a, pets b, pets c, pets d, pets e

-- [deadline] sorted cross join
SELECT a.name FROM pets a, pets b, pets c, pets d ORDER BY md5(a.name || b.name || c.name || d.name)

-- [deadline] an array without end
SELECT array_agg(n) FROM generate_series(1, 10000000000) AS n

-- [deadline] locks that wait for each other
SELECT pg_advisory_lock(99)

-- [limit] big rows
SELECT repeat('x', 5000000) FROM generate_series(1, 1000)

-- [limit] one big row
SELECT repeat('x', 8000000)

-- [limit] a big row of bytes
SELECT decode(repeat('00', 5000000), 'hex')

-- [limit] a big array
SELECT array_fill(7, ARRAY[6000000])

-- [error unproven] text of more than a gigabyte
SELECT repeat(repeat('x', 100000000), 100)

-- [error unproven] brackets, thousands deep
SELECT {dots:20000:(}1{dots:20000:)}

-- [error unproven] an expression thousands deep
SELECT {dots:20000:NOT }true

-- [role] read a file of the server
SELECT pg_read_file('PG_VERSION')

-- [role] read bytes of a file of the server
SELECT pg_read_binary_file('PG_VERSION')

-- [role] list a folder of the server
SELECT pg_ls_dir('.')

-- [role] look at a file of the server
SELECT size FROM pg_stat_file('PG_VERSION')

-- [role] read a file into a large object
SELECT lo_import('PG_VERSION')

-- [role] write a file of the server
SELECT lo_export(loid, '{folder}/evil') FROM pg_largeobject

-- [role] connect elsewhere and write there
SELECT dblink_exec('host={folder} user=postgres dbname=' || current_database(), 'INSERT INTO pets (name) VALUES (''x'')')

-- [role] end another session
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'victim'

-- [role] cancel another session's statement
SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'victim'

-- [role] reload the settings
SELECT pg_reload_conf()

-- [role] switch to another log of writes
SELECT pg_switch_wal()

-- [role] write a mark into the log of writes
SELECT pg_create_restore_point('evil')

-- [role] write a message into the log of writes
SELECT pg_logical_emit_message(false, 'evil', 'x')

-- [role] reserve the log of writes forever
SELECT pg_create_physical_replication_slot('evil', true)

-- [role] forget statistics
SELECT pg_stat_reset()

-- [role] write to the server's log
SELECT pg_log_backend_memory_contexts(pg_backend_pid())

-- [role] read hashes of passwords
SELECT rolname, rolpassword FROM pg_authid

-- [role] read a table that was not granted to the role
SELECT * FROM secrets
