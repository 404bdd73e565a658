-- session is the only session to which a rule applies; '' for all sessions.
ALTER TABLE rules ADD COLUMN session TEXT NOT NULL DEFAULT '';
