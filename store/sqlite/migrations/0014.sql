-- The subscription of a credential to notes through a push service. data is
-- encrypted. endpoint is the SHA-256 of the address in it. kinds is JSON.
CREATE TABLE push_subscriptions (
  credential TEXT PRIMARY KEY REFERENCES tokens(id) ON DELETE CASCADE,
  endpoint   BLOB NOT NULL UNIQUE,
  data       TEXT NOT NULL,
  kinds      BLOB NOT NULL,
  created_at ANY
) STRICT;

-- The key that identifies this server to push services, encrypted. One row.
CREATE TABLE push_key (
  id   INTEGER PRIMARY KEY CHECK (id = 1),
  data TEXT NOT NULL
) STRICT;
