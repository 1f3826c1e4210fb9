-- Owners that come, are suspended and go while the authority runs.

-- Since when nobody is granted access to what is hers; null: she is served as ever. A grant is written by a statement that
-- reads this, and those of before ended with the generations of their connections.
ALTER TABLE owners ADD COLUMN suspended_at timestamptz;

-- A code for an owner who has credentials already. It is good from `in_force_at` on, and any of her credentials takes it away. It stands apart from
-- `enrolment_codes`, so that code from before this migration cannot redeem it before its time.
CREATE TABLE recoveries (
  owner text PRIMARY KEY,
  code_sha256 bytea NOT NULL,
  started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  in_force_at timestamptz NOT NULL,
  expires_at timestamptz NOT NULL
);

-- Owners who were removed, or are being removed. In `directory` their names then belong to nobody (''), so that no owner is made of one again, by
-- code of before this migration either.
CREATE TABLE removals (
  owner text PRIMARY KEY,
  created_at timestamptz NOT NULL,
  began_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  -- When all that was hers stood in her archive; nothing is deleted before.
  exported_at timestamptz,
  ended_at timestamptz
);

-- Signatures of administrators' requests that changed something, until their window has passed.
CREATE TABLE administrator_signatures (
  digest bytea PRIMARY KEY,
  expires_at timestamptz NOT NULL
);
CREATE INDEX administrator_signatures_expiry ON administrator_signatures (expires_at);
