-- When the agent of a session was last started, and a hash of what with.
ALTER TABLE sessions ADD COLUMN booted_at ANY;
ALTER TABLE sessions ADD COLUMN boot_fingerprint TEXT NOT NULL DEFAULT '';
