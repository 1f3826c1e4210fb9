-- Identity assertions that opened a negotiation, by issuer and jti: each opens one, whosever. An owner is named for the sweep of hers that removes it.

CREATE TABLE spent_assertions (
  digest bytea PRIMARY KEY,
  owner text NOT NULL,
  expires_at timestamptz NOT NULL
);
CREATE INDEX spent_assertions_expiry ON spent_assertions (owner, expires_at);
