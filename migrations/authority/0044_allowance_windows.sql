-- expand
-- What was used of allowances: docs/details/owner-api.md, "Allowances". A program from before this migration asks about each operation at a tier that
-- names one. It spends no grant whose share went back, either, but where the clock of the database is set back.
CREATE TABLE allowance_windows (
  owner text NOT NULL,
  allowance text NOT NULL,
  -- The lineage, where each has windows of its own; empty where all her agents share one set.
  whose text NOT NULL,
  -- `calls`, or the name of an amount.
  of text NOT NULL,
  per text NOT NULL,
  -- The instant at which it begins.
  start timestamptz NOT NULL,
  -- When the next begins; null: never.
  ends timestamptz,
  used numeric(34,9) NOT NULL DEFAULT 0 CHECK (used >= 0),
  PRIMARY KEY (owner, allowance, whose, of, per, start)
);
CREATE INDEX allowance_windows_ends ON allowance_windows (owner, ends) WHERE ends IS NOT NULL;

-- The places of an agent's unspent grants of an allowance: there are five, so the key bounds them. The row of a grant that was spent gives its place to
-- the next. The row of one that expired unspent goes when its share has gone back to the windows.
CREATE TABLE allowance_held (
  owner text NOT NULL,
  allowance text NOT NULL,
  handle text NOT NULL,
  place smallint NOT NULL CHECK (place BETWEEN 1 AND 5),
  rpt_sha256 bytea NOT NULL,
  whose text NOT NULL,
  -- That of the grant.
  expires_at timestamptz NOT NULL,
  -- What it took of which windows: [{of, per, start, amount}].
  shares json NOT NULL,
  PRIMARY KEY (owner, allowance, handle, place)
);
CREATE UNIQUE INDEX allowance_held_rpt ON allowance_held (owner, rpt_sha256);

-- When its share went back. It expired unspent before that, and is never spent after it, whatever a clock does.
ALTER TABLE grants ADD COLUMN returned_at timestamptz;

-- Whose windows it uses: the introducer's handle or its own, as it was first admitted. Null: it was admitted before this migration, and not again.
ALTER TABLE connections ADD COLUMN lineage text;

ALTER TABLE due DROP CONSTRAINT due_kind_check;
ALTER TABLE due ADD CONSTRAINT due_kind_check
  CHECK (kind IN ('sweep', 'pull', 'view', 'tell', 'compliance', 'withdraw', 'notify', 'witness', 'allowance'));
