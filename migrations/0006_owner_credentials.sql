-- The logins of an owner at her OIDC realm, and the code by which the operator of this authority lets her
-- enrol her first credential.

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

-- One at most per owner: a new code ends the one before, and using it deletes it, so the row count of that
-- statement says who used it.
CREATE TABLE enrolment_codes (
  owner text PRIMARY KEY,
  code_sha256 bytea NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz NOT NULL
);
