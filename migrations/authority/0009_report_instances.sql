-- The runs of enforcement points that number their reports of allowed calls: how far each has come, and whether it said goodbye. What is missing
-- between its numbers, and one that fell silent, is told to the owner's ledger.
CREATE TABLE report_instances (
  owner text NOT NULL,
  client_id text NOT NULL,
  instance text NOT NULL,
  -- Up to here every number was received, or was told as missing.
  n bigint NOT NULL,
  -- What `n` was before the last word: the statement that moves it answers it.
  previous bigint NOT NULL DEFAULT 0,
  heard_at timestamptz NOT NULL DEFAULT now(),
  -- It said that no more calls will come.
  ended boolean NOT NULL,
  -- When the ledger was told that nobody knows whether more calls were let through; null again once it was heard.
  unknown_at timestamptz,
  PRIMARY KEY (owner, client_id, instance)
);
CREATE INDEX report_instances_heard ON report_instances (owner, heard_at);
