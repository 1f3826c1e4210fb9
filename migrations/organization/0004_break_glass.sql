-- Emergency windows: who may be let in once, and the grants that came of it.

-- A voucher opens a window for one member. `held_by` names the grant for which her authority is being asked; from `held_until` on it is free
-- again. Only a hash is kept of it.
CREATE TABLE vouchers (
  voucher_sha256 bytea PRIMARY KEY,
  owner text NOT NULL,
  admin text NOT NULL,
  reason text NOT NULL,
  opened_at timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz NOT NULL,
  held_by text,
  held_until timestamptz,
  spent_at timestamptz
);
CREATE INDEX vouchers_expiry ON vouchers (expires_at);

-- `held` until her authority has accepted it, `live` from then on, once; of a token only its hash is kept, and there is one only of what was live.
CREATE TABLE break_glass_grants (
  jti text PRIMARY KEY,
  owner text NOT NULL,
  membership text NOT NULL,
  aud text NOT NULL,
  state text NOT NULL CHECK (state IN ('held', 'live', 'void', 'consumed')),
  rpt_sha256 bytea UNIQUE,
  claims json,
  held_at timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz NOT NULL
);
CREATE INDEX break_glass_grants_expiry ON break_glass_grants (expires_at);
CREATE INDEX break_glass_grants_held ON break_glass_grants (held_at) WHERE state = 'held';
