-- [refused] insert
INSERT INTO pets (name) VALUES ('x')

-- [refused] insert and return
INSERT INTO pets (name) VALUES ('x') RETURNING id

-- [refused] insert from a query
INSERT INTO pets (name) SELECT name FROM owners

-- [refused] insert behind a WITH
WITH a AS (SELECT 'x' AS n) INSERT INTO pets (name) SELECT n FROM a

-- [refused] upsert
INSERT INTO pets (id, name) VALUES (1, 'x') ON CONFLICT (id) DO UPDATE SET name = 'y'

-- [refused] replace
REPLACE INTO pets (id, name) VALUES (1, 'x')

-- [refused] update
UPDATE pets SET name = 'x'

-- [error unproven] update of the schema table
UPDATE sqlite_schema SET sql = '' WHERE 0

-- [refused] delete
DELETE FROM pets

-- [refused] delete behind a WITH
WITH a AS (SELECT 1 AS n) DELETE FROM pets WHERE id IN (SELECT n FROM a)

-- [refused] delete that a view's trigger turns into more
DELETE FROM old_pets

-- [refused] create table
CREATE TABLE evil (a)

-- [refused] create table from a query
CREATE TABLE evil AS SELECT * FROM pets

-- [refused] temporary table
CREATE TEMP TABLE evil (a)

-- [refused] temporary view
CREATE TEMP VIEW evil AS SELECT 1

-- [refused] temporary trigger
CREATE TEMP TRIGGER evil AFTER INSERT ON pets BEGIN DELETE FROM owners; END

-- [refused] view
CREATE VIEW evil AS SELECT * FROM pets

-- [refused] index
CREATE INDEX evil ON pets (age)

-- [refused] trigger
CREATE TRIGGER evil AFTER INSERT ON pets BEGIN DELETE FROM owners; END

-- [refused] virtual table
CREATE VIRTUAL TABLE evil USING fts5 (body)

-- [refused] drop table
DROP TABLE pets

-- [refused] drop view
DROP VIEW old_pets

-- [refused] drop index
DROP INDEX pets_name

-- [refused] drop trigger
DROP TRIGGER old_pets_delete

-- [refused] drop a virtual table
DROP TABLE notes

-- [refused] rename a table
ALTER TABLE pets RENAME TO evil

-- [refused] add a column
ALTER TABLE pets ADD COLUMN evil

-- [refused] drop a column
ALTER TABLE owners DROP COLUMN name

-- [refused] attach another database
ATTACH '{folder}/other.db' AS other

-- [refused] attach makes a file
ATTACH '{folder}/evil.db' AS evil

-- [refused] attach with a URI that asks for writing
ATTACH 'file:{folder}/evil.db?mode=rwc' AS evil

-- [refused] attach in memory
ATTACH ':memory:' AS evil

-- [refused unproven] detach
DETACH main

-- [refused] vacuum
VACUUM

-- [refused] vacuum into a file
VACUUM INTO '{folder}/evil.db'

-- [refused] reindex
REINDEX

-- [refused] analyze
ANALYZE

-- [refused] begin
BEGIN

-- [refused] begin exclusively
BEGIN EXCLUSIVE

-- [refused unproven] commit
COMMIT

-- [refused unproven] rollback
ROLLBACK

-- [refused] savepoint
SAVEPOINT evil

-- [refused] pragma that allows writing
PRAGMA query_only = OFF

-- [refused] pragma that trusts the schema
PRAGMA trusted_schema = ON

-- [refused] pragma that opens the schema table
PRAGMA writable_schema = ON

-- [refused] pragma that changes the journal, and so the folder
PRAGMA journal_mode = WAL

-- [refused] pragma that writes the header
PRAGMA user_version = 7

-- [refused] pragma that names a folder
PRAGMA temp_store_directory = '{folder}'

-- [refused] pragma that checkpoints
PRAGMA wal_checkpoint

-- [refused] pragma that reads
PRAGMA table_info(pets)

-- [refused] pragma as a table
SELECT * FROM pragma_database_list

-- [refused] pragma with a comment in it
PRAGMA /* only reading */ journal_mode = DELETE

-- [refused] explain of a write
EXPLAIN DELETE FROM pets

-- [refused] two statements
SELECT 1; DELETE FROM pets

-- [refused unproven] end the transaction, write, and look harmless
COMMIT; DELETE FROM pets; SELECT 1

-- [refused] a second statement behind a comment
SELECT 1 /* ; */ ; -- only a comment
DROP TABLE pets

-- [refused] a write behind a comment
-- SELECT name FROM pets
DELETE FROM pets

-- [refused] a write with a comment in its verb's place
/* SELECT */ DELETE /* FROM nothing */ FROM pets

-- [refused unproven] load a library
SELECT load_extension('{folder}/evil')

-- [refused unproven] pointers of tokenizers
SELECT hex(fts3_tokenizer('simple'))

-- [error unproven] read a file, where the library can
SELECT readfile('{folder}/other.db')

-- [error unproven] write a file, where the library can
SELECT writefile('{folder}/evil', 'x')

-- [refused] full-text command that rewrites its index
INSERT INTO notes (notes) VALUES ('rebuild')

-- [refused] the bytes of the database's pages
SELECT * FROM dbstat

-- [deadline] endless recursion
WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r

-- [deadline] endless recursion that never gives a row
WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n FROM r WHERE n < 0

-- [limit] endless recursion, sorted
WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n FROM r ORDER BY n DESC

-- [deadline] five-way cross join
SELECT count(*) FROM pets a, pets b, pets c, pets d, pets e

-- [deadline] cross join under an aggregate of text
SELECT max(a.name || b.name || c.name || d.name || e.name) FROM pets a, pets b, pets c, pets d, pets e

-- [deadline] random bytes without end
WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(hex(randomblob(500000))) FROM r

-- [deadline] patterns over long text without end
WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r)
SELECT count(*) FROM r WHERE hex(zeroblob(500000)) || n LIKE '%{dots:20:0}1%'

-- [size] a blob of 900 MB
SELECT zeroblob(900000000)

-- [size] random bytes, 900 MB
SELECT randomblob(900000000)

-- [size] text that doubles
SELECT hex(hex(hex(hex(hex(hex(zeroblob(100000)))))))

-- [undone unproven] text by printf, which gives NULL
SELECT printf('%900000000d', 1)

-- [size] text by concatenation
WITH RECURSIVE r (n, t) AS (SELECT 1, 'x' UNION ALL SELECT n + 1, t || t FROM r) SELECT max(length(t)) FROM r

-- [limit] text by aggregation
WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT group_concat(n) FROM r

-- [limit] big rows, each below the limit of a value
WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r LIMIT 1000) SELECT hex(randomblob(500000)) FROM r

-- [limit] sorted big rows that have to be held in memory
WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r LIMIT 100000)
SELECT zeroblob(1000000) || n AS z FROM r ORDER BY z

-- [limit] names that double, before anything runs
WITH a AS (SELECT 1), b AS (SELECT 1 FROM a x, a y), c AS (SELECT 1 FROM b x, b y), d AS (SELECT 1 FROM c x, c y),
e AS (SELECT 1 FROM d x, d y), f AS (SELECT 1 FROM e x, e y), g AS (SELECT 1 FROM f x, f y),
h AS (SELECT 1 FROM g x, g y), i AS (SELECT 1 FROM h x, h y), j AS (SELECT 1 FROM i x, i y),
k AS (SELECT 1 FROM j x, j y), l AS (SELECT 1 FROM k x, k y), m AS (SELECT 1 FROM l x, l y),
n AS (SELECT 1 FROM m x, m y), o AS (SELECT 1 FROM n x, n y), p AS (SELECT 1 FROM o x, o y),
q AS (SELECT 1 FROM p x, p y), r AS (SELECT 1 FROM q x, q y), s AS (SELECT 1 FROM r x, r y),
t AS (SELECT 1 FROM s x, s y), u AS (SELECT 1 FROM t x, t y), v AS (SELECT 1 FROM u x, u y),
w AS (SELECT 1 FROM v x, v y), z AS (SELECT 1 FROM w x, w y) SELECT count(*) FROM z

-- [error unproven] brackets, thousands deep
SELECT {dots:4000:(}1{dots:4000:)}

-- [error unproven] an expression thousands deep
SELECT {dots:4000:1 + }1

-- [error unproven] negations, thousands deep
SELECT {dots:4000:NOT }1

-- [error unproven] unions, thousands long
{dots:3000:SELECT 1 UNION }SELECT 1

-- [error unproven] a pattern that backtracks
SELECT hex(zeroblob(500000)) LIKE '{dots:300:%0}1'

-- [refused] trim, whose time is both lengths multiplied
SELECT length(trim(hex(zeroblob(1000)), replace(hex(zeroblob(1000)), '0', 'a') || '0'))

-- [refused unproven] json_patch, whose time is both lengths multiplied
SELECT json_patch('[1]', '[2]')
