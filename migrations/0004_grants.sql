-- Connections and what was granted on them. Revocation never touches a grant: a connection has a
-- generation, a grant carries the one it was issued under, and it is live only while both agree.

CREATE TABLE connections (
  owner text NOT NULL,
  handle text NOT NULL,
  status text NOT NULL CHECK (status IN ('active', 'revoked')),
  generation integer NOT NULL DEFAULT 1,
  identity text NOT NULL CHECK (identity IN ('pseudonymous', 'identified')),
  label text,
  operator text,
  first_party boolean NOT NULL DEFAULT false,
  first_seen timestamptz NOT NULL DEFAULT now(),
  admitted_at timestamptz NOT NULL DEFAULT now(),
  last_access timestamptz,
  revocations integer NOT NULL DEFAULT 0,
  introduced_by text,
  PRIMARY KEY (owner, handle)
);
CREATE INDEX connections_operator ON connections (owner, operator, handle) WHERE operator IS NOT NULL;
CREATE INDEX connections_introducer ON connections (owner, introduced_by, handle) WHERE introduced_by IS NOT NULL;

-- Per tier: first grant ever, and the owner's own approval with the generation it was given in.
CREATE TABLE connection_tiers (
  owner text NOT NULL,
  handle text NOT NULL,
  tier_id text NOT NULL,
  granted_at timestamptz,
  approved_at timestamptz,
  approved_generation integer,
  PRIMARY KEY (owner, handle, tier_id)
);

CREATE TABLE operators (
  owner text NOT NULL,
  origin text NOT NULL,
  name text,
  blocked_at timestamptz,
  mine boolean NOT NULL DEFAULT false,
  PRIMARY KEY (owner, origin)
);

-- `rpt_sha256` is the look-up key: a live introspection costs no signature verification. `consumed_at` is
-- in no index, so that spending a grant stays a heap-only update.
CREATE TABLE grants (
  owner text NOT NULL,
  rpt_sha256 bytea NOT NULL,
  jti text NOT NULL,
  family text NOT NULL,
  handle text NOT NULL,
  generation integer NOT NULL,
  client_id text NOT NULL,
  aud text NOT NULL,
  resource_id text NOT NULL,
  tier_id text NOT NULL,
  tier_epoch integer NOT NULL,
  single_use boolean NOT NULL,
  claims json NOT NULL,
  receipt text NOT NULL,
  issued_at timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz NOT NULL,
  consumed_at timestamptz,
  PRIMARY KEY (owner, rpt_sha256)
) WITH (fillfactor = 90);
CREATE UNIQUE INDEX grants_jti ON grants (owner, jti);
CREATE INDEX grants_of_connection ON grants (owner, handle, generation, expires_at);
CREATE INDEX grants_expiry ON grants (owner, expires_at);
