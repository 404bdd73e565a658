-- project is the directory that a credential is bound to; empty for none.
ALTER TABLE tokens ADD COLUMN project TEXT NOT NULL DEFAULT '';
