-- expand
-- Sidecars that may use an answer about a grant again for a moment (ADR 0021), one row per owner and sidecar that asks for her. Whoever ends something of hers
-- asks each of them, once he has committed, to drop what it has (`asked` + 1), and waits until it says so (`acknowledged`) or can have nothing left. No key leads
-- to her row in owners: a row that went with her would not be found by who removed her.
CREATE TABLE lease_holders (
  owner text NOT NULL,
  -- 128 random bits: who knows it may have its answers under it.
  id text NOT NULL,
  client_id text NOT NULL,
  asked integer NOT NULL DEFAULT 0,
  acknowledged integer NOT NULL DEFAULT 0,
  -- Counts the times that the sidecar was heard of: where it stands still, the sidecar has gone, and so the row goes.
  renewals bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (owner, id)
) WITH (fillfactor = 50);
