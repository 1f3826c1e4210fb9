-- What a holder takes back, until her tally has acknowledged it or nothing can rest on it any more. `negotiations` is null where it is all of an account.
CREATE TABLE joint_withdrawals (
  owner text NOT NULL,
  -- The `jti`, the same at each attempt.
  id text NOT NULL,
  tally text NOT NULL,
  account text NOT NULL,
  negotiations text[],
  since timestamptz NOT NULL DEFAULT clock_timestamp(),
  matters_until timestamptz NOT NULL,
  attempts integer NOT NULL DEFAULT 0,
  PRIMARY KEY (owner, id)
);
CREATE INDEX joint_withdrawals_since ON joint_withdrawals (owner, tally, since);

-- An allowance that was answered again by `expired` may have been collected before, and is taken back like any other.
DROP INDEX joint_questions_relied;
CREATE INDEX joint_questions_relied ON joint_questions (owner, relied_until) WHERE withdrawn_at IS NULL;

-- `withdraw`: one of her tallies is to be told; its issuer stands in the place of a resource server.
ALTER TABLE due DROP CONSTRAINT due_kind_check;
ALTER TABLE due ADD CONSTRAINT due_kind_check CHECK (kind IN ('sweep', 'pull', 'view', 'tell', 'compliance', 'withdraw'));
