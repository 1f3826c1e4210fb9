-- What may be asked for: resource servers, their resources, and the tiers that govern them.

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
  PRIMARY KEY (owner, client_id),
  -- A server registered by signature can never fall back to a secret.
  CHECK ((auth = 'secret') = (secret_sha256 IS NOT NULL))
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
-- Stored versions are immutable: a receipt points at the exact words that were signed.
CREATE FUNCTION refuse_rewriting_terms() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'a published version of the terms is immutable';
END $$;
CREATE TRIGGER terms_versions_immutable BEFORE UPDATE OR DELETE ON terms_versions
  FOR EACH ROW EXECUTE FUNCTION refuse_rewriting_terms();
