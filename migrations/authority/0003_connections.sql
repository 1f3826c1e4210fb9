-- Connections, the operators that stand beside them, and the tiers that were reached on each. Revocation never touches a grant: a connection has a
-- generation, a grant carries the one it was issued under, and it is live only while both agree.

CREATE TABLE connections (
  owner text NOT NULL,
  handle text NOT NULL,
  status text NOT NULL CHECK (status IN ('active', 'revoked')),
  generation integer NOT NULL DEFAULT 1,
  identity text NOT NULL CHECK (identity IN ('pseudonymous', 'identified')),
  label text,
  first_party boolean NOT NULL DEFAULT false,
  first_seen timestamptz NOT NULL DEFAULT now(),
  admitted_at timestamptz NOT NULL DEFAULT now(),
  last_access timestamptz,
  revocations integer NOT NULL DEFAULT 0,
  introduced_by text,
  -- The key that the agent proved when the owner last approved it (or when it was introduced), by thumbprint: the handle of an
  -- identified agent does not name its key. It says which key an operator must publish beside a newcomer's, which agents an
  -- operator's directory lists, and that a key whose connection was ended comes back under another handle.
  jkt text,
  PRIMARY KEY (owner, handle)
);
CREATE INDEX connections_key ON connections (owner, jkt) WHERE jkt IS NOT NULL;
CREATE INDEX connections_introducer ON connections (owner, introduced_by, handle) WHERE introduced_by IS NOT NULL;

-- The operators that stand beside a connection: those named when the owner approved it, and each that a later agreement named whose
-- directory lists the key. None is ever taken off, also not by a revocation: a block must find every agent that was an operator's, and
-- an agent must not get past a block by leaving out its client_id. A row is written under the lock of the operator's row, before the
-- grant that rests on it; a later grant finds it and locks nothing.
CREATE TABLE connection_operators (
  owner text NOT NULL,
  handle text NOT NULL,
  origin text NOT NULL,
  since timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (owner, handle, origin)
);
CREATE INDEX connection_operators_origin ON connection_operators (owner, origin, handle);

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
