-- What the agent of a session reported about itself, as JSON: it is long, and
-- lists do without.
CREATE TABLE reports (
  session TEXT PRIMARY KEY,
  config  BLOB,
  files   BLOB
) STRICT, WITHOUT ROWID;
