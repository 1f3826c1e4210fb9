-- expand
-- Signed revocations: docs/choices.md, "Revocations that prove themselves". A program from before this migration signs none.
CREATE TABLE revocations (
  owner text NOT NULL,
  jti text NOT NULL,
  -- The count of her ends with this act.
  ends bigint NOT NULL,
  -- The handles of all connections that ended with it.
  ended text[] NOT NULL,
  -- Of the entry of her ledger that tells of it.
  entry_id bigint NOT NULL,
  done_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  -- Null until the act has committed, no sidecar relies on what it ended, and a checkpoint covers the entry.
  jwt text,
  PRIMARY KEY (owner, jti)
);
CREATE INDEX revocations_unsigned ON revocations (owner, done_at) WHERE jwt IS NULL;
