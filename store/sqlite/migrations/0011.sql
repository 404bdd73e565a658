-- clean is 1 if no turn was open once this one had ended. A fold of the log may
-- start at the end of such a turn.
ALTER TABLE turns ADD COLUMN clean INTEGER NOT NULL DEFAULT 0;
UPDATE turns SET clean = 1 FROM (
  SELECT key AS ended, min(after_seq) OVER (
    PARTITION BY session ORDER BY coalesce(end_seq, 9223372036854775807) DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
  ) AS longer FROM turns
) WHERE key = ended AND end_seq IS NOT NULL AND coalesce(longer, end_seq) >= end_seq;
CREATE INDEX turns_clean ON turns(session, end_seq) WHERE clean = 1;

-- Events that replace those of a log up to position seq, for a fold that starts
-- there. A cache: the log is complete without it.
CREATE TABLE checkpoints (
  session INTEGER NOT NULL REFERENCES logs(key) ON DELETE CASCADE,
  seq     INTEGER NOT NULL,
  events  BLOB NOT NULL,
  crc     INTEGER NOT NULL,
  UNIQUE (session, seq)
) STRICT;
