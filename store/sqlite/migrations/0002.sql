-- Stretches of a log whose events were removed. Positions first to last are
-- missing there on purpose; any other hole is damage. Stretches never touch.
CREATE TABLE gaps (
  session INTEGER NOT NULL REFERENCES logs(key) ON DELETE CASCADE,
  last    INTEGER NOT NULL,
  first   INTEGER NOT NULL,
  PRIMARY KEY (session, last)
) STRICT, WITHOUT ROWID;

-- compacted is 1 once nothing more of the turn will be removed.
ALTER TABLE turns ADD COLUMN compacted INTEGER NOT NULL DEFAULT 0;
CREATE INDEX turns_due ON turns(key) WHERE end_seq IS NOT NULL AND compacted = 0;

-- deleted is 1 if the session is gone and only its rows are still there.
ALTER TABLE logs ADD COLUMN deleted INTEGER NOT NULL DEFAULT 0;
CREATE INDEX logs_deleted ON logs(key) WHERE deleted = 1;
