-- What is read in order: the owner's ledger, her receipts, and the events of her portal stream. Readers go on from the last position they got, so positions are given in the order in
-- which entries become readable: by one writer at a time for each owner, to what is committed and has none (docs/decisions/0014). Nothing of that
-- rests on the cluster that the rows stand in.

-- What an entry is called until it has a position, and the order in which those without one are numbered: microseconds, then a counter. No two are
-- alike, also where rows were moved here from another cluster while its counter was not.
CREATE SEQUENCE insertions;
CREATE FUNCTION insertion_id() RETURNS bigint LANGUAGE sql VOLATILE AS
  $$SELECT (date_part('epoch', clock_timestamp()) * 1000000)::bigint * 1024 + (nextval('insertions') & 1023)$$;

-- The last position given in each of an owner's lists. Locked by whoever numbers, and by nobody else: the tail of the lock order.
CREATE TABLE heads (
  owner text PRIMARY KEY,
  ledger bigint NOT NULL DEFAULT 0,
  events bigint NOT NULL DEFAULT 0,
  receipts bigint NOT NULL DEFAULT 0
);

CREATE TABLE ledger (
  owner text NOT NULL,
  id bigint NOT NULL DEFAULT insertion_id(),
  -- The position, from 1, without gaps; null until it is given, and never changed after.
  seq bigint,
  ts timestamptz NOT NULL DEFAULT now(),
  kind text NOT NULL,
  family text,
  handle text,
  data json NOT NULL,
  count integer NOT NULL DEFAULT 1,
  -- An access report's id, or the (reason, minute) of which this is the first refusal of a stranger.
  once_key text,
  PRIMARY KEY (owner, id)
);
CREATE UNIQUE INDEX ledger_once ON ledger (owner, once_key) WHERE once_key IS NOT NULL;
CREATE INDEX ledger_unnumbered ON ledger (owner, id) WHERE seq IS NULL;
CREATE UNIQUE INDEX ledger_order ON ledger (owner, seq) WHERE seq IS NOT NULL;
-- This one finds those without a position, too: an agent's standing is counted from all that is committed.
CREATE INDEX ledger_handle ON ledger (owner, handle, seq) WHERE handle IS NOT NULL;
CREATE INDEX ledger_kind ON ledger (owner, kind, seq) WHERE seq IS NOT NULL;
-- The ledger of one agent in one kind. Over two columns the planner would still walk one filter's entries for the other's, all of them where the
-- two never met; over what they make together there is one way to read.
CREATE INDEX ledger_handle_kind ON ledger (owner, (handle || E'\n' || kind), seq) WHERE handle IS NOT NULL AND seq IS NOT NULL;
-- What an agent did lately, for the rules that count it (`standing.denials_above`, `standing.calls_above`): read only as far as the rule's number.
CREATE INDEX ledger_recent ON ledger (owner, handle, kind, ts) WHERE kind IN ('denied', 'refused', 'touched');

-- Refusals of strangers after the first of a minute: counted here, one row for each owner, reason and minute, and told to the ledger as one entry
-- when the minute has closed. So the ledger's entries never change, and strangers with free keys cannot fill it.
CREATE TABLE refusal_counts (
  owner text NOT NULL,
  minute timestamptz NOT NULL,
  kind text NOT NULL,
  reason text NOT NULL,
  -- The handle that was claimed and not proved; empty where none was.
  handle text NOT NULL,
  count integer NOT NULL,
  -- Five at most.
  families text[] NOT NULL,
  PRIMARY KEY (owner, minute, kind, reason, handle)
);

CREATE TABLE events (
  owner text NOT NULL,
  id bigint NOT NULL DEFAULT insertion_id(),
  seq bigint,
  at timestamptz NOT NULL DEFAULT now(),
  event text NOT NULL,
  data json NOT NULL,
  PRIMARY KEY (owner, id)
);
CREATE INDEX events_unnumbered ON events (owner, id) WHERE seq IS NULL;
CREATE UNIQUE INDEX events_order ON events (owner, seq) WHERE seq IS NOT NULL;

-- Kept for ever and apart from the grants that they were given with. Append-only by privilege: the role that requests are served as may neither
-- change nor remove one (src/storage/core/runtime-role.ts). So a receipt's position stands in a row of its own.
CREATE TABLE receipts (
  owner text NOT NULL,
  -- Of the grant.
  jti text NOT NULL,
  family text NOT NULL,
  handle text NOT NULL,
  issued_at timestamptz NOT NULL DEFAULT now(),
  receipt text NOT NULL,
  PRIMARY KEY (owner, jti)
);
CREATE INDEX receipts_family ON receipts (owner, family);

CREATE TABLE receipt_positions (
  owner text NOT NULL,
  jti text NOT NULL,
  id bigint NOT NULL DEFAULT insertion_id(),
  seq bigint,
  PRIMARY KEY (owner, jti)
);
CREATE INDEX receipts_unnumbered ON receipt_positions (owner, id) WHERE seq IS NULL;
CREATE UNIQUE INDEX receipts_order ON receipt_positions (owner, seq) WHERE seq IS NOT NULL;
