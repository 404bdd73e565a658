-- What the agent reported about a turn, as of its last report. turn is
-- turns.key. The tokens or the cost are NULL if the agent did not report them.
CREATE TABLE usage (
  turn           INTEGER PRIMARY KEY,
  session        INTEGER NOT NULL REFERENCES logs(key) ON DELETE CASCADE,
  at             INTEGER,
  input          INTEGER,
  output         INTEGER,
  cache_read     INTEGER,
  cache_creation INTEGER,
  reasoning      INTEGER,
  cost           REAL
) STRICT;
CREATE INDEX usage_session ON usage(session);

-- The reports of earlier versions. The bounds are those of store.Reported.
INSERT INTO usage (turn, session, at, input, output, cache_read, cache_creation, reasoning, cost)
SELECT turn, session, CASE typeof(at) WHEN 'integer' THEN at END,
  min(max(CAST(coalesce(body ->> '$.usage.inputTokens', 0) AS INTEGER), 0), 1099511627776),
  min(max(CAST(coalesce(body ->> '$.usage.outputTokens', 0) AS INTEGER), 0), 1099511627776),
  min(max(CAST(coalesce(body ->> '$.usage.cacheReadInputTokens', 0) AS INTEGER), 0), 1099511627776),
  min(max(CAST(coalesce(body ->> '$.usage.cacheCreationInputTokens', 0) AS INTEGER), 0), 1099511627776),
  min(max(CAST(coalesce(body ->> '$.usage.reasoningTokens', 0) AS INTEGER), 0), 1099511627776),
  NULL
FROM (SELECT *, row_number() OVER (PARTITION BY turn ORDER BY seq DESC) AS age FROM (
  SELECT turn, session, seq, at, CAST(payload AS TEXT) AS body FROM events
  WHERE type IN ('usage_updated', 'response_done') AND turn IS NOT NULL
) WHERE json_valid(body) AND json_type(body, '$.usage') = 'object')
WHERE age = 1;
INSERT INTO usage (turn, session, at, cost)
SELECT turn, session, CASE typeof(at) WHEN 'integer' THEN at END,
  min(max(CAST(body ->> '$.costUsd' AS REAL), 0.0), 1e9)
FROM (SELECT *, row_number() OVER (PARTITION BY turn ORDER BY seq DESC) AS age FROM (
  SELECT turn, session, seq, at, CAST(payload AS TEXT) AS body FROM events
  WHERE type = 'usage_updated' AND turn IS NOT NULL
) WHERE json_valid(body) AND json_type(body, '$.costUsd') IN ('integer', 'real'))
WHERE age = 1
ON CONFLICT (turn) DO UPDATE SET cost = excluded.cost;
