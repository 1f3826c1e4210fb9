-- A question of a tally, fixed by its first asking. `family` is the owner's own name for it, also of the item that waits for her, where one does.
CREATE TABLE joint_questions (
  owner text NOT NULL,
  tally text NOT NULL,
  account text NOT NULL,
  negotiation text NOT NULL,
  family text NOT NULL,
  resource_id text NOT NULL,
  contract text NOT NULL,
  asked_at timestamptz NOT NULL DEFAULT now(),
  -- From here on: set once, when it is answered for good.
  effect text CHECK (effect IN ('allow', 'deny')),
  verdict text,
  handle text,
  operator text,
  tier_id text,
  signed_at timestamptz,
  -- Until when the verdict may be collected, and until when a grant may rest on it.
  collect_until timestamptz,
  relied_until timestamptz,
  withdrawn_at timestamptz,
  PRIMARY KEY (owner, tally, account, negotiation)
);
CREATE INDEX joint_questions_relied ON joint_questions (owner, relied_until) WHERE effect = 'allow' AND withdrawn_at IS NULL;
CREATE INDEX joint_questions_asked ON joint_questions (owner, asked_at);
