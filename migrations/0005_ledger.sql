-- The owner's ledger and the events of her portal stream. Both are read in the order of (`xid`, number), and
-- only below the oldest transaction still in flight. The number alone would not do: it is drawn before commit,
-- and a transaction with a higher id may draw the lower number, so a late commit would be skipped for ever.

CREATE SEQUENCE ledger_seq;
CREATE TABLE ledger (
  owner text NOT NULL,
  seq bigint NOT NULL DEFAULT nextval('ledger_seq'),
  ts timestamptz NOT NULL DEFAULT now(),
  kind text NOT NULL,
  family text,
  handle text,
  data json NOT NULL,
  count integer NOT NULL DEFAULT 1,
  -- An access report's id, or the (reason, minute) under which refusals of strangers are counted.
  once_key text,
  xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
  PRIMARY KEY (owner, seq)
);
CREATE UNIQUE INDEX ledger_once ON ledger (owner, once_key) WHERE once_key IS NOT NULL;
CREATE INDEX ledger_order ON ledger (owner, xid, seq);
CREATE INDEX ledger_handle ON ledger (owner, handle, xid, seq) WHERE handle IS NOT NULL;
CREATE INDEX ledger_kind ON ledger (owner, kind, xid, seq);

CREATE SEQUENCE event_id;
CREATE TABLE events (
  owner text NOT NULL,
  id bigint NOT NULL DEFAULT nextval('event_id'),
  at timestamptz NOT NULL DEFAULT now(),
  event text NOT NULL,
  data json NOT NULL,
  xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
  PRIMARY KEY (owner, id)
);
CREATE INDEX events_order ON events (owner, xid, id);
CREATE INDEX events_at ON events (owner, at);
