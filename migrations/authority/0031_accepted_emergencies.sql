-- expand
-- The grants of emergencies that a member's authority said yes to. Each is one call: what the organization and the enforcement points tell of it is compared.
CREATE TABLE accepted_emergencies (
  owner text NOT NULL,
  jti text NOT NULL,
  issuer text NOT NULL,
  resource_id text NOT NULL,
  -- The resource server of the resource, which alone may report the call.
  client_id text NOT NULL,
  handle text NOT NULL,
  expires_at timestamptz NOT NULL,
  -- When the organization told of its use, and that it came to nothing.
  used_at timestamptz,
  void_at timestamptz,
  -- How many calls were reported.
  reports integer NOT NULL DEFAULT 0,
  -- When the two were compared, some time after its end.
  compared_at timestamptz,
  PRIMARY KEY (owner, jti)
);
CREATE INDEX accepted_emergencies_expiry ON accepted_emergencies (owner, expires_at);

-- How many notices came, in the hour that began then, that tell of an emergency, and that ask for a yes.
ALTER TABLE memberships ADD COLUMN emergencies_since timestamptz,
  ADD COLUMN emergencies_told integer NOT NULL DEFAULT 0, ADD COLUMN emergencies_asked integer NOT NULL DEFAULT 0;
