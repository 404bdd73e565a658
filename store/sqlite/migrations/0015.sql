-- place orders the prompts of a session; a person can change it. about is what
-- lists show of a prompt, NULL for prompts of earlier versions.
ALTER TABLE queue ADD COLUMN place INTEGER NOT NULL DEFAULT 0;
ALTER TABLE queue ADD COLUMN about BLOB;
UPDATE queue SET place = id;

-- seen_seq is the position up to which somebody has seen the log. The sessions
-- of earlier versions count as seen. queue_held is 1 while queued prompts wait
-- until somebody continues the queue.
ALTER TABLE sessions ADD COLUMN seen_seq INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN queue_held INTEGER NOT NULL DEFAULT 0;
UPDATE sessions SET seen_seq = coalesce((
  SELECT max(e.seq) FROM events e JOIN logs l ON l.key = e.session WHERE l.session = sessions.id
), 0);
