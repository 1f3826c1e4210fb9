-- expand
-- What agents may do unasked at an owner's ask-me tiers: docs/details/owner-api.md. A program from before this migration knows no condition
-- that names an allowance, so its tiers with one ask her about each operation.
CREATE TABLE allowances (
  owner text NOT NULL,
  id text NOT NULL,
  version integer NOT NULL,
  zone text NOT NULL,
  among text NOT NULL CHECK (among IN ('all', 'lineage')),
  -- Null: it has no end.
  until timestamptz,
  hold_s integer NOT NULL,
  -- The members amounts, windows and tiers.
  content json NOT NULL,
  -- When the windows of its whole life begin.
  made_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (owner, id)
);
