-- Rules that decide calls of tools without a person. An id is never used again:
-- the reasons of decisions name it.
CREATE TABLE rules (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  effect       TEXT NOT NULL,
  kind         TEXT NOT NULL,
  cli_type     TEXT NOT NULL,
  project_dir  TEXT NOT NULL,
  tool         TEXT NOT NULL,
  pattern      TEXT NOT NULL,
  note         TEXT NOT NULL,
  made_by      TEXT NOT NULL,
  made_by_name TEXT NOT NULL,
  created_at   ANY,
  uses         INTEGER NOT NULL DEFAULT 0,
  last_used_at ANY
) STRICT;
