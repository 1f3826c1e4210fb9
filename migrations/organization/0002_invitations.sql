-- By which people come in: one code for one named person, or one shared by whoever is told it.

-- `answer` is null while it waits; used, declined and withdrawn ones stay for the list until they are swept.
CREATE TABLE invitations (
  code_id text PRIMARY KEY,
  owner text NOT NULL,
  as_uri text NOT NULL,
  note text,
  code_sha256 bytea NOT NULL,
  invited_at timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz NOT NULL,
  answer text CHECK (answer IN ('joined', 'declined', 'withdrawn'))
);
CREATE INDEX invitations_person ON invitations (owner, as_uri);
CREATE INDEX invitations_expiry ON invitations (expires_at);

-- The shared code: one at most, and a new one ends the one before.
CREATE TABLE join_code (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  code_sha256 bytea NOT NULL,
  rotated_at timestamptz NOT NULL DEFAULT now()
);

-- Wrong codes by the code that they were tried for, and by hour: whoever guesses is stopped, from however many sources.
CREATE TABLE wrong_codes (
  name text NOT NULL,
  hour timestamptz NOT NULL,
  count integer NOT NULL,
  PRIMARY KEY (name, hour)
);
