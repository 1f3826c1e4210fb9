-- Negotiations (families), their tickets, and the grants that they end in. A family's row holds the hash of its one valid ticket, so a
-- presentation is one conditional update and two presenters can never both win.

CREATE TABLE families (
  owner text NOT NULL,
  family text NOT NULL,
  state text NOT NULL CHECK (state IN ('need_info', 'awaiting_owner', 'granted', 'denied', 'ended')),
  client_id text NOT NULL,
  resource_id text NOT NULL,
  resource_scopes text[] NOT NULL,
  tier_id text,
  template json,
  -- The sealed first ticket costs no write; this row must outlive it, else the ticket could be presented twice.
  sealed_expires_at timestamptz NOT NULL,
  opened_at timestamptz NOT NULL DEFAULT now(),
  negotiation_expires_at timestamptz NOT NULL,
  ticket_hash bytea,
  ticket_issued_at timestamptz NOT NULL DEFAULT now(),
  ticket_previous_at timestamptz,
  ticket_expires_at timestamptz NOT NULL,
  -- From here on: set when the agreement is held for the owner.
  kind text CHECK (kind IN ('connection', 'operation')),
  handle text,
  operator text,
  attested boolean,
  params_key text,
  requested_at timestamptz,
  held json,
  item json,
  decision text CHECK (decision IN ('approved', 'denied')),
  decided_by text,
  decided_at timestamptz,
  generation integer,
  PRIMARY KEY (owner, family)
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX families_ticket ON families (owner, ticket_hash) WHERE ticket_hash IS NOT NULL;
CREATE INDEX families_waiting ON families (owner, requested_at, family) WHERE state = 'awaiting_owner';
CREATE INDEX families_waiting_handle ON families (owner, handle) WHERE state = 'awaiting_owner';
CREATE INDEX families_sweep ON families (owner, ticket_expires_at);

-- `rpt_sha256` is the look-up key: a live introspection costs no signature verification. `consumed_at` is
-- in no index, so that spending a grant stays a heap-only update.
CREATE TABLE grants (
  owner text NOT NULL,
  rpt_sha256 bytea NOT NULL,
  jti text NOT NULL,
  family text NOT NULL,
  handle text NOT NULL,
  generation integer NOT NULL,
  client_id text NOT NULL,
  aud text NOT NULL,
  resource_id text NOT NULL,
  tier_id text NOT NULL,
  tier_epoch integer NOT NULL,
  single_use boolean NOT NULL,
  claims json NOT NULL,
  issued_at timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz NOT NULL,
  consumed_at timestamptz,
  PRIMARY KEY (owner, rpt_sha256)
) WITH (fillfactor = 90);
CREATE UNIQUE INDEX grants_jti ON grants (owner, jti);
CREATE INDEX grants_of_connection ON grants (owner, handle, generation, expires_at);
CREATE INDEX grants_expiry ON grants (owner, expires_at);
