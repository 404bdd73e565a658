-- parent is the id of the credential that made this one; empty for none.
ALTER TABLE tokens ADD COLUMN parent TEXT NOT NULL DEFAULT '';
