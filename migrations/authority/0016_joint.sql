-- Accounts that an owner holds jointly, as she agreed to hold them, and what of them stands in her registry.

-- One account has one tally at an owner. `mandate` is as she agreed to it, and every verdict of hers names its digest.
CREATE TABLE joint_accounts (
  owner text NOT NULL,
  account text NOT NULL,
  tally text NOT NULL,
  mandate json NOT NULL,
  mandate_s256 text NOT NULL,
  agreed_at timestamptz NOT NULL DEFAULT now(),
  -- What the tally serves in its place, where it does: the owner was told of this one.
  changed_s256 text,
  PRIMARY KEY (owner, account)
);

-- What stands in the registry because of a mandate. Its `client_id` is `joint:` and the account, which is no resource server's.
ALTER TABLE resources DROP CONSTRAINT resources_source_check;
ALTER TABLE resources ADD CONSTRAINT resources_source_check CHECK (source IN ('provisioned', 'pulled', 'joint'));
