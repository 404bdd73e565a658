-- The id of the log from which the index was made.
CREATE TABLE origin (log TEXT NOT NULL) STRICT;

-- The sessions in the index, each up to a position of its log.
CREATE TABLE sessions (
  key     INTEGER PRIMARY KEY,
  session TEXT NOT NULL UNIQUE,
  seq     INTEGER NOT NULL
) STRICT;

-- One row for each item. id is the item's time in milliseconds, followed by 20
-- bits that make it unique. So the order of ids is that of time.
CREATE TABLE items (
  id      INTEGER PRIMARY KEY,
  session INTEGER NOT NULL REFERENCES sessions(key),
  seq     INTEGER NOT NULL,
  turn    TEXT NOT NULL,
  item    TEXT NOT NULL,
  kind    TEXT NOT NULL
) STRICT;
CREATE INDEX items_session ON items(session);

-- The text of each item. tags has one word for each property of the item that
-- a query can select, so that the full-text index also selects by properties.
CREATE VIRTUAL TABLE texts USING fts5(
  text, tags, tokenize = "unicode61 remove_diacritics 2", prefix = '2 3'
);
