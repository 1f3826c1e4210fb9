-- What members' authorization servers are told unasked, until each has answered. One that was answered for good is gone.

-- In one line notices are told one after another, each when the one before is done. A line is a membership's ('' in `line`), or one notice
-- alone that waits for no other (its jti). One that is empty is gone.
CREATE TABLE notice_lines (
  owner text NOT NULL,
  membership text NOT NULL,
  line text NOT NULL,
  as_uri text NOT NULL,
  due_at timestamptz NOT NULL DEFAULT now(),
  -- In vain, for the first notice of the line.
  attempts integer NOT NULL DEFAULT 0,
  PRIMARY KEY (owner, membership, line)
);
CREATE INDEX notice_lines_due ON notice_lines (due_at);

-- `status` is the last answer that was no end of it; `stopped_at` is set where the notice is told no more although nobody took it.
CREATE TABLE notices (
  jti text PRIMARY KEY,
  place bigint GENERATED ALWAYS AS IDENTITY,
  owner text NOT NULL,
  membership text NOT NULL,
  line text NOT NULL,
  notice json NOT NULL,
  made_at timestamptz NOT NULL DEFAULT now(),
  status integer,
  stopped_at timestamptz
);
CREATE INDEX notices_line ON notices (owner, membership, line, place) WHERE stopped_at IS NULL;
CREATE INDEX notices_stopped ON notices (stopped_at) WHERE stopped_at IS NOT NULL;
