-- What a tally counts for: accounts with the mandate in force, and what is registered below them. All of it as the provisioning file says.

-- `version` counts up with every other mandate; whatever was counted under the version before ends by that. The row is locked FOR SHARE by
-- whoever makes or spends a grant, and FOR UPDATE by a change of the mandate.
CREATE TABLE accounts (
  account text PRIMARY KEY,
  tag text NOT NULL,
  version integer NOT NULL DEFAULT 1,
  mandate_s256 text NOT NULL,
  mandate json NOT NULL
);
CREATE UNIQUE INDEX accounts_tag ON accounts (tag);

-- Every mandate that was ever served: append-only by privilege (src/storage/core/runtime-role.ts).
CREATE TABLE mandates (
  account text NOT NULL,
  version integer NOT NULL,
  mandate_s256 text NOT NULL,
  mandate json NOT NULL,
  served_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (account, version)
);

CREATE TABLE resource_servers (
  account text NOT NULL,
  client_id text NOT NULL,
  resource_uri text NOT NULL,
  status text NOT NULL CHECK (status IN ('active', 'revoked')),
  generation integer NOT NULL DEFAULT 0,
  secret_sha256 bytea NOT NULL,
  PRIMARY KEY (account, client_id)
);

CREATE TABLE resources (
  account text NOT NULL,
  resource_id text NOT NULL,
  client_id text NOT NULL,
  name text NOT NULL,
  type text,
  resource_scopes text[] NOT NULL,
  consequence text,
  tools json,
  PRIMARY KEY (account, resource_id)
);

-- Folded terms as they were offered, each for ever: append-only by privilege. The same terms are the same version, by their digest.
CREATE TABLE terms_versions (
  account text NOT NULL,
  version integer NOT NULL,
  s256 text NOT NULL,
  terms json NOT NULL,
  published_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (account, version)
);
CREATE UNIQUE INDEX terms_versions_s256 ON terms_versions (account, s256);
