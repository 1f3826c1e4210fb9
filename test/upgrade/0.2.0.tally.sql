-- The schema of the tally of usher 0.2.0: written by `make upgrade-package`, never by hand.
CREATE TABLE accesses (
  account text NOT NULL,
  client_id text NOT NULL,
  key text NOT NULL,
  family text NOT NULL,
  jti text NOT NULL,
  tool text NOT NULL,
  summary text,
  at timestamp with time zone NOT NULL,
  recorded_at timestamp with time zone DEFAULT now() NOT NULL,
  resource_id text,
  handle text,
  n bigint GENERATED ALWAYS AS IDENTITY NOT NULL
);
CREATE TABLE accounts (
  account text NOT NULL,
  tag text NOT NULL,
  version integer DEFAULT 1 NOT NULL,
  mandate_s256 text NOT NULL,
  mandate json NOT NULL
);
CREATE TABLE answers (
  account text NOT NULL,
  family text NOT NULL,
  holder text NOT NULL,
  issuer text NOT NULL,
  weight integer NOT NULL,
  state text DEFAULT 'pending'::text NOT NULL,
  verdict text,
  verdict_exp bigint,
  allowed_until bigint,
  withdrawn boolean DEFAULT false NOT NULL,
  asked integer DEFAULT 0 NOT NULL,
  due_at timestamp with time zone DEFAULT now() NOT NULL
) WITH (fillfactor=80);
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
  expires_at timestamp with time zone NOT NULL,
  consumed_at timestamp with time zone
) WITH (fillfactor=90, toast_tuple_target=8160);
CREATE TABLE locks (
  name text NOT NULL
);
CREATE TABLE mandates (
  account text NOT NULL,
  version integer NOT NULL,
  mandate_s256 text NOT NULL,
  mandate json NOT NULL,
  served_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE negotiations (
  account text NOT NULL,
  family text NOT NULL,
  state text NOT NULL,
  client_id text NOT NULL,
  resource_id text NOT NULL,
  resource_scopes text[] NOT NULL,
  version integer NOT NULL,
  template json,
  sealed_expires_at timestamp with time zone NOT NULL,
  negotiation_expires_at timestamp with time zone NOT NULL,
  ticket_hash bytea,
  ticket_issued_at timestamp with time zone DEFAULT now() NOT NULL,
  ticket_previous_at timestamp with time zone,
  ticket_expires_at timestamp with time zone NOT NULL,
  held json,
  decision text,
  withdrawn boolean DEFAULT false NOT NULL
) WITH (fillfactor=80);
CREATE TABLE receipts (
  account text NOT NULL,
  jti text NOT NULL,
  receipt text NOT NULL,
  issued_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE resource_servers (
  account text NOT NULL,
  client_id text NOT NULL,
  resource_uri text NOT NULL,
  status text NOT NULL,
  generation integer DEFAULT 0 NOT NULL,
  secret_sha256 bytea NOT NULL
);
CREATE TABLE resources (
  account text NOT NULL,
  resource_id text NOT NULL,
  client_id text NOT NULL,
  name text NOT NULL,
  type text,
  resource_scopes text[] NOT NULL,
  consequence text,
  tools json
);
CREATE TABLE schema_migrations (
  number integer NOT NULL,
  party text NOT NULL,
  name text NOT NULL,
  sha256 text NOT NULL,
  needs integer,
  applied_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE terms_versions (
  account text NOT NULL,
  version integer NOT NULL,
  s256 text NOT NULL,
  terms json NOT NULL,
  published_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE withdrawals (
  issuer text NOT NULL,
  jti text NOT NULL,
  expires_at timestamp with time zone NOT NULL
);
ALTER TABLE accesses ADD CONSTRAINT accesses_pkey PRIMARY KEY (account, client_id, key);
ALTER TABLE accounts ADD CONSTRAINT accounts_pkey PRIMARY KEY (account);
ALTER TABLE answers ADD CONSTRAINT answers_pkey PRIMARY KEY (account, family, holder, issuer);
ALTER TABLE answers ADD CONSTRAINT answers_state_check CHECK ((state = ANY (ARRAY['pending'::text, 'ready'::text, 'allowed'::text, 'refused'::text])));
ALTER TABLE grants ADD CONSTRAINT grants_pkey PRIMARY KEY (account, rpt_sha256);
ALTER TABLE locks ADD CONSTRAINT locks_pkey PRIMARY KEY (name);
ALTER TABLE mandates ADD CONSTRAINT mandates_pkey PRIMARY KEY (account, version);
ALTER TABLE negotiations ADD CONSTRAINT negotiations_decision_check CHECK ((decision = ANY (ARRAY['approved'::text, 'denied'::text])));
ALTER TABLE negotiations ADD CONSTRAINT negotiations_pkey PRIMARY KEY (account, family);
ALTER TABLE negotiations ADD CONSTRAINT negotiations_state_check CHECK ((state = ANY (ARRAY['need_info'::text, 'awaiting_holders'::text, 'granted'::text, 'denied'::text, 'ended'::text])));
ALTER TABLE receipts ADD CONSTRAINT receipts_pkey PRIMARY KEY (account, jti);
ALTER TABLE resource_servers ADD CONSTRAINT resource_servers_pkey PRIMARY KEY (account, client_id);
ALTER TABLE resource_servers ADD CONSTRAINT resource_servers_status_check CHECK ((status = ANY (ARRAY['active'::text, 'revoked'::text])));
ALTER TABLE resources ADD CONSTRAINT resources_pkey PRIMARY KEY (account, resource_id);
ALTER TABLE schema_migrations ADD CONSTRAINT schema_migrations_pkey PRIMARY KEY (number);
ALTER TABLE terms_versions ADD CONSTRAINT terms_versions_pkey PRIMARY KEY (account, version);
ALTER TABLE withdrawals ADD CONSTRAINT withdrawals_pkey PRIMARY KEY (issuer, jti);
ALTER TABLE answers ADD CONSTRAINT answers_account_family_fkey FOREIGN KEY (account, family) REFERENCES negotiations(account, family) ON DELETE CASCADE;
CREATE UNIQUE INDEX accesses_listed ON accesses USING btree (account, n);
CREATE INDEX accesses_sweep ON accesses USING btree (recorded_at);
CREATE UNIQUE INDEX accounts_tag ON accounts USING btree (tag);
CREATE INDEX grants_expiry ON grants USING btree (expires_at);
CREATE UNIQUE INDEX grants_family ON grants USING btree (account, family);
CREATE INDEX negotiations_sweep ON negotiations USING btree (ticket_expires_at);
CREATE UNIQUE INDEX negotiations_ticket ON negotiations USING btree (account, ticket_hash) WHERE (ticket_hash IS NOT NULL);
CREATE UNIQUE INDEX terms_versions_s256 ON terms_versions USING btree (account, s256);
CREATE INDEX withdrawals_expiry ON withdrawals USING btree (expires_at);
INSERT INTO schema_migrations (number, party, name, sha256, needs) VALUES (1, 'tally', '0001_accounts.sql', '940724a3e20855f582b7cb9ee5a83c2f30bf924550d13432fd4f4f6e73eda3af', 1);
INSERT INTO schema_migrations (number, party, name, sha256, needs) VALUES (2, 'tally', '0002_negotiations.sql', '030c293c56f8baf0c29fb1c73b21134a1606fa7288fb8900129c685049682125', 2);
INSERT INTO schema_migrations (number, party, name, sha256, needs) VALUES (3, 'tally', '0003_accesses.sql', '277d3d6afe328ff0103a38020460cd21ecbcc7c1e96de437694ffbbf00a01d6d', 3);
INSERT INTO schema_migrations (number, party, name, sha256, needs) VALUES (4, 'tally', '0004_grants_in_place.sql', '3163157b9f9b9790ab3e02280490bc8731f7399cccd2bc710a382e659186c33a', 4);
