-- [refused] insert
INSERT INTO pets (name) VALUES ('x')

-- [refused] insert and return
INSERT INTO pets (name) VALUES ('x') RETURNING id

-- [refused] insert into a table without transactions
INSERT INTO plain VALUES (7)

-- [refused] upsert
INSERT INTO pets (id, name) VALUES (1, 'x') ON DUPLICATE KEY UPDATE name = 'y'

-- [refused] insert later
INSERT DELAYED INTO plain VALUES (7)

-- [refused] replace
REPLACE INTO pets (id, name) VALUES (1, 'x')

-- [refused] update
UPDATE pets SET name = 'x'

-- [refused] update of two tables
UPDATE pets, owners SET pets.name = 'x', owners.name = 'y'

-- [refused] delete
DELETE FROM pets

-- [refused] delete and return
DELETE FROM pets RETURNING name

-- [refused] truncate
TRUNCATE TABLE pets

-- [refused unproven] load a file of the server
LOAD DATA INFILE '{folder}/log' INTO TABLE pets (name)

-- [refused unproven] load a file of the client
LOAD DATA LOCAL INFILE '{folder}/log' INTO TABLE pets (name)

-- [refused] lock rows
SELECT * FROM pets FOR UPDATE

-- [refused] lock rows inside
SELECT * FROM owners WHERE id IN (SELECT owner FROM pets FOR UPDATE)

-- [refused] lock a table
LOCK TABLES pets WRITE

-- [refused] lock a table for reading
LOCK TABLES pets READ

-- [refused] lock the server
FLUSH TABLES WITH READ LOCK

-- [refused] lock for a backup
BACKUP LOCK pets

-- [refused] begin a backup
BACKUP STAGE START

-- [refused] create table
CREATE TABLE evil (a INT)

-- [refused] create table from a query
CREATE TABLE evil SELECT * FROM pets

-- [refused] create or replace
CREATE OR REPLACE TABLE pets (a INT)

-- [refused] temporary table
CREATE TEMPORARY TABLE evil (a INT)

-- [refused] temporary table from a query
CREATE TEMPORARY TABLE evil SELECT * FROM pets

-- [refused] view
CREATE VIEW evil AS SELECT 1

-- [refused] index
CREATE INDEX evil ON pets (age)

-- [refused] function
CREATE FUNCTION evil() RETURNS INT RETURN 1

-- [refused] trigger
CREATE TRIGGER evil BEFORE INSERT ON pets FOR EACH ROW SET NEW.age = 1

-- [refused] event
CREATE EVENT evil ON SCHEDULE EVERY 1 SECOND DO DELETE FROM pets

-- [refused] sequence
CREATE SEQUENCE evil

-- [refused unproven] database
CREATE DATABASE evil

-- [refused unproven] user
CREATE USER evil

-- [refused unproven] grant
GRANT ALL ON *.* TO evil

-- [refused unproven] password
SET PASSWORD = PASSWORD('evil')

-- [refused] drop table
DROP TABLE pets

-- [refused unproven] drop database
DROP DATABASE `empty`

-- [refused] alter table
ALTER TABLE pets ADD COLUMN evil INT

-- [refused] rename
RENAME TABLE pets TO evil

-- [refused] analyze
ANALYZE TABLE pets

-- [refused] optimize
OPTIMIZE TABLE pets

-- [refused] repair
REPAIR TABLE plain

-- [refused] check
CHECK TABLE pets

-- [refused] run a statement and analyze it
ANALYZE UPDATE pets SET name = 'x'

-- [refused] explain of a write
EXPLAIN DELETE FROM pets

-- [refused] procedure that ends the transaction, then writes
CALL grow_all()

-- [refused] block that ends the transaction, then writes
BEGIN NOT ATOMIC COMMIT; START TRANSACTION READ WRITE; DELETE FROM pets; COMMIT; END

-- [refused] condition of a block
IF 1 THEN DELETE FROM pets; END IF

-- [refused] function that writes
SELECT grow()

-- [refused] function that writes, in a condition
SELECT * FROM pets WHERE grow() > 0

-- [refused] next value of a sequence
SELECT NEXT VALUE FOR numbers

-- [refused] value of a sequence
SELECT SETVAL(numbers, 1000)

-- [refused] evaluate for nothing
DO SLEEP(0)

-- [refused] handler
HANDLER pets OPEN

-- [refused] prepare a write
PREPARE evil FROM 'DELETE FROM pets'

-- [refused] execute text
EXECUTE IMMEDIATE 'DELETE FROM pets'

-- [refused] begin
BEGIN

-- [refused] commit
COMMIT

-- [refused] savepoint
SAVEPOINT evil

-- [refused] a transaction of another kind
XA START 'evil'

-- [refused] setting of the server
SET GLOBAL max_connections = 50

-- [refused] setting of the session
SET SESSION max_statement_time = 0

-- [refused] setting of the transaction
SET SESSION TRANSACTION READ WRITE

-- [refused] setting for one statement
SET STATEMENT max_statement_time = 0 FOR SELECT SLEEP(1)

-- [refused] other database
USE mysql

-- [refused] show
SHOW TABLES

-- [refused] flush
FLUSH TABLES

-- [refused] flush what is one word further
FLUSH PRIVILEGES

-- [refused unproven] kill
KILL 1

-- [refused unproven] shutdown
SHUTDOWN

-- [refused unproven] forget the log of writes
RESET MASTER

-- [refused] forget the cache
RESET QUERY CACHE

-- [refused unproven] install a library
INSTALL SONAME 'ha_blackhole'

-- [refused unproven] purge logs
PURGE BINARY LOGS TO 'x'

-- [refused] two statements
SELECT 1; DELETE FROM pets

-- [refused] end the transaction, write, and look harmless
COMMIT; DELETE FROM pets; SELECT 1

-- [refused] a write in a comment of a version
/*!50000 DELETE FROM pets */

-- [refused unproven] a second statement in a comment of a version
SELECT 1 /*!50000 ; DELETE FROM pets */

-- [refused] a write in a comment of MariaDB
/*M!100000 DELETE FROM pets */

-- [refused] a lock in a comment of a version
SELECT * FROM pets /*!50000 FOR UPDATE */

-- [refused] a write behind a comment
# SELECT
DELETE FROM pets -- SELECT

-- [refused unproven] a bracket to leave a query
SELECT 1) ; DELETE FROM pets; SELECT (1

-- [refused unproven] brackets that only fit inside EXISTS
SELECT 1) OR EXISTS (SELECT 2

-- [refused] into a variable
SELECT name FROM pets LIMIT 1 INTO @evil

-- [undone] variable
SELECT @evil := 7

-- [undone] lock that outlives the transaction
SELECT GET_LOCK('evil', 0)

-- [undone] shared locks on rows
SELECT id FROM pets LOCK IN SHARE MODE

-- [refused] analysis by the server
SELECT * FROM pets PROCEDURE ANALYSE()

-- [undone] text of a gigabyte, which the server makes NULL
SELECT REPEAT('x', 1000000000)

-- [deadline] sleep
SELECT SLEEP(60)

-- [deadline] sleep in every row
SELECT id FROM pets WHERE SLEEP(1) = 0

-- [deadline] sleep in a derived table
SELECT * FROM (SELECT SLEEP(60) AS a) AS b

-- [deadline] benchmark
SELECT BENCHMARK(100000000000, SHA2('x', 512))

-- [deadline] benchmark in a condition
SELECT id FROM pets WHERE BENCHMARK(100000000000, MD5(name)) = 1

-- [deadline] recursion with a sleep
WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 + SLEEP(0.1) FROM r) SELECT COUNT(*) FROM r

-- [deadline] cross join
SELECT COUNT(*) FROM pets a, pets b, pets c, pets d, pets e

-- [deadline] sorted cross join
SELECT a.name FROM pets a, pets b, pets c, pets d ORDER BY MD5(CONCAT(a.name, b.name, c.name, d.name))

-- [deadline] cross join of the catalogue
SELECT COUNT(*) FROM information_schema.columns a, information_schema.columns b, information_schema.columns c

-- [deadline] lock that another session holds
SELECT GET_LOCK('held', 60)

-- [limit] big rows
SELECT REPEAT('x', 5000000) FROM pets

-- [limit] big rows by a limit
SELECT REPEAT('x', 5000000) FROM pets a, pets b LIMIT 1000000

-- [undone] brackets, thousands deep
SELECT {dots:20000:(}1{dots:20000:)}

-- [undone] an expression thousands deep
SELECT {dots:20000:NOT }1

-- [refused unproven] write a file of the server
SELECT name FROM pets INTO OUTFILE '{folder}/evil'

-- [refused unproven] write bytes to a file of the server
SELECT name FROM pets LIMIT 1 INTO DUMPFILE '{folder}/evil'

-- [role-null] read a file of the server
SELECT LOAD_FILE('{folder}/log')

-- [role] read hashes of passwords
SELECT user, priv FROM mysql.global_priv

-- [role] read a table that was not granted to the user
SELECT * FROM secrets

-- [role] read another database
SELECT * FROM mysql.help_topic LIMIT 1
