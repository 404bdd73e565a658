-- The boot of the system in which a process opened the store. Empty if the last
-- process closed the store, and in a copy: then readers saw no event that the
-- log lacks.
ALTER TABLE identity ADD COLUMN boot TEXT NOT NULL DEFAULT '';
