-- What positions in these logs count in, a UUID. A backup has the empty id, and
-- gets one of its own when it is opened: what follows in it is not what followed
-- here.
CREATE TABLE identity (id TEXT NOT NULL) STRICT;
INSERT INTO identity VALUES ('');
