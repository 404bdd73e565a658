-- The id of the log from which the index was made.
CREATE TABLE origin (log TEXT NOT NULL) STRICT;

-- The sessions in the index, each up to a position of its log. state is the
-- state of the file with a conversation that is no session; '' for a session.
CREATE TABLE sessions (
  key     INTEGER PRIMARY KEY,
  session TEXT NOT NULL UNIQUE,
  seq     INTEGER NOT NULL,
  state   TEXT NOT NULL
) STRICT;

-- One row for each item. id is the item's time in seconds, followed by 10 bits
-- that make it unique. So the order of ids is that of time. The full-text index
-- has the id for each word of a text, so ids are as dense as that allows. at is
-- the time in milliseconds.
CREATE TABLE items (
  id      INTEGER PRIMARY KEY,
  at      INTEGER NOT NULL,
  session INTEGER NOT NULL REFERENCES sessions(key),
  seq     INTEGER NOT NULL,
  turn    TEXT NOT NULL,
  item    TEXT NOT NULL,
  kind    TEXT NOT NULL
) STRICT;
CREATE INDEX items_session ON items(session, item);

-- The text of each item. tags has one word for each property of the item that
-- a query can select, so that the full-text index also selects by properties.
CREATE VIRTUAL TABLE texts USING fts5(
  text, tags, tokenize = "unicode61 remove_diacritics 2", prefix = '2 3 4'
);

-- The words in the full-text index. It stores nothing.
CREATE VIRTUAL TABLE words USING fts5vocab(texts, instance);
