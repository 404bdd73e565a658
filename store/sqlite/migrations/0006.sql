-- What a client may ask again. credential is empty for the id that a client
-- chose for a turn, and key is that id. answer is NULL until there is one.
CREATE TABLE requests (
  credential TEXT NOT NULL,
  key        TEXT NOT NULL,
  digest     BLOB NOT NULL,
  session    TEXT NOT NULL,
  turn       TEXT NOT NULL,
  answer     BLOB,
  at         ANY,
  PRIMARY KEY (credential, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX requests_session ON requests(session);
CREATE INDEX requests_at ON requests(at) WHERE credential <> '';

-- Finds the sessions in which a turn is.
CREATE INDEX turns_turn ON turns(turn);
