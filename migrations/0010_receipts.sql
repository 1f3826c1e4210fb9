-- Receipts, kept for ever and apart from the grants that they were given with. Append-only by privilege: the role that requests are served as may
-- neither change nor remove one (src/storage/core/runtime-role.ts). So a receipt's position stands in a row of its own.
ALTER TABLE grants DROP COLUMN receipt;

CREATE TABLE receipts (
  owner text NOT NULL,
  -- Of the grant.
  jti text NOT NULL,
  family text NOT NULL,
  handle text NOT NULL,
  issued_at timestamptz NOT NULL DEFAULT now(),
  receipt text NOT NULL,
  PRIMARY KEY (owner, jti)
);
CREATE INDEX receipts_family ON receipts (owner, family);

CREATE TABLE receipt_positions (
  owner text NOT NULL,
  jti text NOT NULL,
  id bigint NOT NULL DEFAULT insertion_id(),
  seq bigint,
  PRIMARY KEY (owner, jti)
);
CREATE INDEX receipts_unnumbered ON receipt_positions (owner, id) WHERE seq IS NULL;
CREATE UNIQUE INDEX receipts_order ON receipt_positions (owner, seq) WHERE seq IS NOT NULL;
ALTER TABLE heads ADD COLUMN receipts bigint NOT NULL DEFAULT 0;
