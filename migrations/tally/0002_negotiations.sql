-- Negotiations, what each holder answered to them, and the grants that they end in.

-- Whatever ends what was counted, a withdrawal or the agent, changes the row of the negotiation; a grant is made and spent under a lock on it.
CREATE TABLE negotiations (
  account text NOT NULL,
  family text NOT NULL,
  state text NOT NULL CHECK (state IN ('need_info', 'awaiting_holders', 'granted', 'denied', 'ended')),
  client_id text NOT NULL,
  resource_id text NOT NULL,
  resource_scopes text[] NOT NULL,
  -- The mandate that it is counted under.
  version integer NOT NULL,
  template json,
  -- The sealed first ticket costs no write; this row must outlive it, else the ticket could be presented twice.
  sealed_expires_at timestamptz NOT NULL,
  negotiation_expires_at timestamptz NOT NULL,
  ticket_hash bytea,
  ticket_issued_at timestamptz NOT NULL DEFAULT now(),
  ticket_previous_at timestamptz,
  ticket_expires_at timestamptz NOT NULL,
  -- From here on: set when the agreement is held for the holders.
  held json,
  decision text CHECK (decision IN ('approved', 'denied')),
  -- That the allowances left are too few: what was granted on them is dead.
  withdrawn boolean NOT NULL DEFAULT false,
  PRIMARY KEY (account, family)
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX negotiations_ticket ON negotiations (account, ticket_hash) WHERE ticket_hash IS NOT NULL;
CREATE INDEX negotiations_sweep ON negotiations (ticket_expires_at);

-- One row for each holder who is asked. `ready`: she would allow. `allowed` and `refused` are final, but for an allowance that nobody collected
-- in its time.
CREATE TABLE answers (
  account text NOT NULL,
  family text NOT NULL,
  holder text NOT NULL,
  issuer text NOT NULL,
  weight integer NOT NULL,
  state text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'ready', 'allowed', 'refused')),
  verdict text,
  -- Seconds since the epoch: until when the verdict may be collected, and until when a grant may live on it.
  verdict_exp bigint,
  allowed_until bigint,
  withdrawn boolean NOT NULL DEFAULT false,
  asked integer NOT NULL DEFAULT 0,
  due_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (account, family, holder, issuer),
  FOREIGN KEY (account, family) REFERENCES negotiations ON DELETE CASCADE
) WITH (fillfactor = 80);

CREATE TABLE grants (
  account text NOT NULL,
  rpt_sha256 bytea NOT NULL,
  jti text NOT NULL,
  family text NOT NULL,
  client_id text NOT NULL,
  aud text NOT NULL,
  resource_id text NOT NULL,
  version integer NOT NULL,
  single_use boolean NOT NULL,
  claims json NOT NULL,
  expires_at timestamptz NOT NULL,
  consumed_at timestamptz,
  PRIMARY KEY (account, rpt_sha256)
) WITH (fillfactor = 90);
-- One negotiation ends in one grant.
CREATE UNIQUE INDEX grants_family ON grants (account, family);
CREATE INDEX grants_expiry ON grants (expires_at);

-- Append-only by privilege.
CREATE TABLE receipts (
  account text NOT NULL,
  jti text NOT NULL,
  receipt text NOT NULL,
  issued_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (account, jti)
);

-- Reports of calls that were let through, each once.
CREATE TABLE accesses (
  account text NOT NULL,
  client_id text NOT NULL,
  key text NOT NULL,
  family text NOT NULL,
  jti text NOT NULL,
  tool text NOT NULL,
  summary text,
  at timestamptz NOT NULL,
  recorded_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (account, client_id, key)
);
CREATE INDEX accesses_sweep ON accesses (recorded_at);

-- Withdrawals that were received, until they could not be sent again.
CREATE TABLE withdrawals (
  issuer text NOT NULL,
  jti text NOT NULL,
  expires_at timestamptz NOT NULL,
  PRIMARY KEY (issuer, jti)
);
CREATE INDEX withdrawals_expiry ON withdrawals (expires_at);
