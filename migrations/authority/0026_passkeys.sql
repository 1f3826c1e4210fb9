-- expand
-- Passkeys of owners. A removed one stays: what it signed is verified by its key, and it is never registered again.
CREATE TABLE passkeys (
  owner text NOT NULL,
  -- Its credential id, in base64url.
  id text NOT NULL,
  jwk json NOT NULL,
  rp_id text NOT NULL,
  name text NOT NULL,
  added_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  removed_at timestamptz,
  PRIMARY KEY (owner, id)
);

-- Device keys that a passkey let in, for a while. They stand apart from `device_keys`, so that code from before this migration, which knows of no end of
-- a key, takes none of them.
CREATE TABLE session_keys (
  owner text NOT NULL,
  kid text NOT NULL,
  jwk json NOT NULL,
  name text NOT NULL,
  passkey text NOT NULL,
  enrolled_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  expires_at timestamptz NOT NULL,
  revoked_at timestamptz,
  PRIMARY KEY (owner, kid)
);

-- Whose a passkey is. Rows of before are of the kinds of before.
ALTER TABLE directory DROP CONSTRAINT directory_kind_check;
ALTER TABLE directory ADD CONSTRAINT directory_kind_check CHECK (kind IN ('tag', 'device_key', 'login', 'name', 'passkey')) NOT VALID;
