-- Owners, how a request finds hers, what she proves herself by, and what was applied once.

-- Routing only: which owner a ticket tag, a device key or a login belongs to. The one table not keyed by
-- owner, because it is what names her; everything else is read after it, inside one owner.
CREATE TABLE directory (
  kind text NOT NULL CHECK (kind IN ('tag', 'device_key', 'login')),
  key text NOT NULL,
  owner text NOT NULL,
  PRIMARY KEY (kind, key)
);

CREATE TABLE owners (
  owner text PRIMARY KEY,
  tag text NOT NULL UNIQUE,
  created_at timestamptz NOT NULL DEFAULT now()
);

-- One row per owner, locked before caps are counted and before anything that ends or admits: the head of
-- the lock order (queue, operator, parent, child by handle). No foreign key points here, so no insert
-- elsewhere takes a lock on it unasked.
CREATE TABLE queues (
  owner text PRIMARY KEY
);

CREATE TABLE device_keys (
  owner text NOT NULL,
  kid text NOT NULL,
  jwk json NOT NULL,
  name text NOT NULL,
  enrolled_at timestamptz NOT NULL DEFAULT now(),
  revoked_at timestamptz,
  PRIMARY KEY (owner, kid)
);

-- Who she is at the realm is (issuer, subject) and nothing else; `id` is a name for it that fits a path.
-- Removing a login removes the row, so that it may be bound anew; the ledger remembers.
CREATE TABLE logins (
  owner text NOT NULL,
  id text NOT NULL,
  issuer text NOT NULL,
  subject text NOT NULL,
  name text NOT NULL,
  bound_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (owner, id)
);

-- By which the operator of this authority lets her enrol her first credential. One at most per owner: a new
-- code ends the one before, and using it deletes it, so the row count of that statement says who used it.
CREATE TABLE enrolment_codes (
  owner text PRIMARY KEY,
  code_sha256 bytea NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz NOT NULL
);

-- Signatures of owner requests that changed something, until their window has passed: a second
-- presentation fails on the key, in the transaction of the change itself.
CREATE TABLE spent_signatures (
  owner text NOT NULL,
  digest bytea NOT NULL,
  expires_at timestamptz NOT NULL,
  PRIMARY KEY (owner, digest)
);
CREATE INDEX spent_signatures_expiry ON spent_signatures (owner, expires_at);

-- Items of the provisioning file that were applied, so that what the owner has since changed or deleted
-- is never made again.
CREATE TABLE provisioned (
  owner text NOT NULL,
  kind text NOT NULL,
  item text NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (owner, kind, item)
);
