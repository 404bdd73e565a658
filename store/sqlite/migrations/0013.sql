-- The commands that the agent of a session offers. NULL in reports of older
-- versions.
ALTER TABLE reports ADD COLUMN commands BLOB;
