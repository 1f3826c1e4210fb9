-- The charter, version by version, and who is a member under it. One organization per database.

-- One row, locked by every change of the charter, of a group and of a member, and by every join: changes stand in one order, and each sees
-- the one before. It says which version is in force (0: none yet) and how many entries the activity has.
CREATE TABLE head (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  version bigint NOT NULL DEFAULT 0,
  activity bigint NOT NULL DEFAULT 0
);
INSERT INTO head DEFAULT VALUES;

-- What members agreed to: append-only by privilege (src/storage/core/runtime-role.ts). Moving a member and attesting a clearance publish the
-- version before anew, under the same digest.
CREATE TABLE charters (
  version bigint PRIMARY KEY,
  s256 text NOT NULL,
  charter json NOT NULL,
  published_at timestamptz NOT NULL DEFAULT now(),
  by text NOT NULL
);

-- An owner is a member once. `view` counts up with every change for her, and `view_version` is the version that changed it last.
CREATE TABLE members (
  owner text PRIMARY KEY,
  as_uri text NOT NULL,
  join_id text NOT NULL,
  role text,
  joined_at timestamptz NOT NULL DEFAULT now(),
  agreed_version bigint NOT NULL,
  view bigint NOT NULL DEFAULT 1,
  view_version bigint NOT NULL,
  clearance json NOT NULL DEFAULT '{}',
  -- As her authority reported last.
  compliance json,
  compliance_at timestamptz
);
CREATE INDEX members_role ON members (role);

-- What administrators and members did, numbered under the lock of the head: from 1, without gaps. Append-only by privilege.
CREATE TABLE activity (
  seq bigint PRIMARY KEY,
  ts timestamptz NOT NULL DEFAULT now(),
  kind text NOT NULL,
  admin text,
  owner text,
  data json NOT NULL
);

-- Signatures of requests that changed something, until their window has passed.
CREATE TABLE spent_signatures (
  digest bytea PRIMARY KEY,
  expires_at timestamptz NOT NULL
);
CREATE INDEX spent_signatures_expiry ON spent_signatures (expires_at);
