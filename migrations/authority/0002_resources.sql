-- What may be asked for: resource servers, what is pulled from them, their resources, and the tiers that govern them.

CREATE TABLE resource_servers (
  owner text NOT NULL,
  client_id text NOT NULL,
  name text NOT NULL,
  resource_uri text NOT NULL,
  status text NOT NULL CHECK (status IN ('pending', 'active', 'revoked')),
  auth text NOT NULL CHECK (auth IN ('secret', 'signature')),
  secret_sha256 bytea,
  registered_at timestamptz NOT NULL DEFAULT now(),
  decided_at timestamptz,
  last_pat_issued timestamptz,
  -- Counted up by each withdrawal. A PAT carries the one it was issued under, so approving again revives none.
  generation integer NOT NULL DEFAULT 1,
  -- Whether its resources are pulled from it; those of a provisioned one are, by default, only what the file says.
  publishes boolean NOT NULL DEFAULT false,
  PRIMARY KEY (owner, client_id),
  -- A server registered by signature can never fall back to a secret.
  CHECK ((auth = 'secret') = (secret_sha256 IS NOT NULL))
);
CREATE INDEX resource_servers_pending ON resource_servers (owner) WHERE status = 'pending';

-- How the pull from each source went. `attempt` names the pull under way: what an earlier one brings is dropped.
CREATE TABLE registry_pulls (
  owner text NOT NULL,
  client_id text NOT NULL,
  attempt integer NOT NULL,
  tried_at timestamptz NOT NULL,
  landed_at timestamptz,
  failed_at timestamptz,
  fault text,
  -- Listed resources that were not taken, because they are another active server's.
  conflicts integer NOT NULL DEFAULT 0,
  PRIMARY KEY (owner, client_id)
);

CREATE TABLE resources (
  owner text NOT NULL,
  resource_id text NOT NULL,
  client_id text NOT NULL,
  name text NOT NULL,
  type text,
  resource_scopes text[] NOT NULL,
  consequence text,
  source text NOT NULL CHECK (source IN ('provisioned', 'pulled')),
  PRIMARY KEY (owner, resource_id)
);
CREATE INDEX resources_by_server ON resources (owner, client_id);

-- A deleted tier keeps its row: its versions stay dereferenceable and its numbering goes on. `epoch`
-- counts deletions; a grant remembers the one it was issued under, so making a tier again revives nothing.
CREATE TABLE tiers (
  owner text NOT NULL,
  tier_id text NOT NULL,
  name text NOT NULL,
  ask_me boolean NOT NULL,
  rules json NOT NULL,
  clearance json NOT NULL,
  version integer NOT NULL,
  epoch integer NOT NULL DEFAULT 1,
  deleted_at timestamptz,
  PRIMARY KEY (owner, tier_id)
);

-- A resource is governed by at most one tier.
CREATE TABLE tier_resources (
  owner text NOT NULL,
  resource_id text NOT NULL,
  tier_id text NOT NULL,
  PRIMARY KEY (owner, resource_id)
);
CREATE INDEX tier_resources_tier ON tier_resources (owner, tier_id);

-- A receipt points at the exact words that were signed, so who serves requests may add a version and change none
-- (src/storage/core/runtime-role.ts).
CREATE TABLE terms_versions (
  owner text NOT NULL,
  tier_id text NOT NULL,
  version integer NOT NULL,
  name text NOT NULL,
  purpose text NOT NULL,
  scope text[] NOT NULL,
  expires_in integer NOT NULL,
  prohibited text[] NOT NULL,
  per_operation boolean NOT NULL,
  published_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (owner, tier_id, version)
);
