-- One row for each session that has events. key stands for it in other tables.
CREATE TABLE logs (
  key     INTEGER PRIMARY KEY,
  session TEXT NOT NULL UNIQUE
) STRICT;

-- One row for each turn that an event names. end_seq is that of its terminal event.
CREATE TABLE turns (
  key       INTEGER PRIMARY KEY,
  session   INTEGER NOT NULL REFERENCES logs(key) ON DELETE CASCADE,
  turn      TEXT NOT NULL,
  after_seq INTEGER NOT NULL,
  end_seq   INTEGER,
  UNIQUE (session, turn)
) STRICT;
CREATE INDEX turns_open ON turns(session, after_seq) WHERE end_seq IS NULL;

-- turn is turns.key, or NULL between turns. crc is that of everything but type.
CREATE TABLE events (
  id      INTEGER PRIMARY KEY,
  session INTEGER NOT NULL REFERENCES logs(key) ON DELETE CASCADE,
  seq     INTEGER NOT NULL,
  turn    INTEGER,
  type    TEXT NOT NULL,
  at      ANY,
  payload BLOB NOT NULL,
  crc     INTEGER NOT NULL,
  UNIQUE (session, seq)
) STRICT;

CREATE TABLE sessions (
  id               TEXT PRIMARY KEY,
  cli_type         TEXT NOT NULL,
  project_id       TEXT NOT NULL,
  project_dir      TEXT NOT NULL,
  title            TEXT NOT NULL,
  agent_session_id TEXT NOT NULL,
  model_id         TEXT NOT NULL,
  permission_mode  TEXT NOT NULL,
  options          BLOB,
  state            TEXT NOT NULL,
  last_turn        TEXT NOT NULL,
  last_line        TEXT NOT NULL,
  created_at       ANY,
  last_active_at   ANY
) STRICT;
CREATE INDEX sessions_agent ON sessions(cli_type, agent_session_id, created_at) WHERE agent_session_id <> '';
CREATE INDEX sessions_active ON sessions(last_active_at);

CREATE TABLE queue (
  id      INTEGER PRIMARY KEY,
  session TEXT NOT NULL,
  turn    TEXT NOT NULL,
  input   BLOB,
  at      ANY,
  UNIQUE (session, turn)
) STRICT;

CREATE TABLE tokens (
  id           TEXT PRIMARY KEY,
  kind         TEXT NOT NULL,
  name         TEXT NOT NULL,
  hash         BLOB NOT NULL UNIQUE,
  scopes       BLOB,
  created_at   ANY,
  last_used_at ANY,
  expires_at   ANY
) STRICT;
