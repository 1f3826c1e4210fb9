-- The schema of the authority of usher 0.2.0: written by `make upgrade-package`, never by hand.
CREATE SEQUENCE insertions AS bigint START 1 INCREMENT 1 MINVALUE 1 MAXVALUE 9223372036854775807 CACHE 1;
CREATE OR REPLACE FUNCTION insertion_id()
 RETURNS bigint
 LANGUAGE sql
AS $function$SELECT (date_part('epoch', clock_timestamp()) * 1000000)::bigint * 1024 + (nextval('insertions') & 1023)$function$
;
CREATE TABLE administrator_signatures (
  digest bytea NOT NULL,
  expires_at timestamp with time zone NOT NULL
);
CREATE TABLE banned_origins (
  owner text NOT NULL,
  origin text NOT NULL,
  banned_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE connection_operators (
  owner text NOT NULL,
  handle text NOT NULL,
  origin text NOT NULL,
  since timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE connection_tiers (
  owner text NOT NULL,
  handle text NOT NULL,
  tier_id text NOT NULL,
  granted_at timestamp with time zone,
  approved_at timestamp with time zone,
  approved_generation integer
);
CREATE TABLE connections (
  owner text NOT NULL,
  handle text NOT NULL,
  status text NOT NULL,
  generation integer DEFAULT 1 NOT NULL,
  identity text NOT NULL,
  label text,
  first_party boolean DEFAULT false NOT NULL,
  first_seen timestamp with time zone DEFAULT now() NOT NULL,
  admitted_at timestamp with time zone DEFAULT now() NOT NULL,
  last_access timestamp with time zone,
  revocations integer DEFAULT 0 NOT NULL,
  introduced_by text,
  jkt text,
  org_epoch integer DEFAULT 0 NOT NULL,
  reach text,
  org_ended_in text,
  admits text DEFAULT 'all'::text NOT NULL
);
CREATE TABLE device_keys (
  owner text NOT NULL,
  kid text NOT NULL,
  jwk json NOT NULL,
  name text NOT NULL,
  enrolled_at timestamp with time zone DEFAULT now() NOT NULL,
  revoked_at timestamp with time zone
);
CREATE TABLE directory (
  kind text NOT NULL,
  key text NOT NULL,
  owner text NOT NULL,
  cell text,
  move text
);
CREATE TABLE due (
  owner text NOT NULL,
  kind text NOT NULL,
  client_id text DEFAULT ''::text NOT NULL,
  at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE enrolment_codes (
  owner text NOT NULL,
  code_sha256 bytea NOT NULL,
  created_at timestamp with time zone DEFAULT now() NOT NULL,
  expires_at timestamp with time zone NOT NULL
);
CREATE TABLE events (
  owner text NOT NULL,
  id bigint DEFAULT insertion_id() NOT NULL,
  seq bigint,
  at timestamp with time zone DEFAULT now() NOT NULL,
  event text NOT NULL,
  data json NOT NULL
);
CREATE TABLE families (
  owner text NOT NULL,
  family text NOT NULL,
  state text NOT NULL,
  client_id text NOT NULL,
  resource_id text NOT NULL,
  resource_scopes text[] NOT NULL,
  tier_id text,
  template json,
  sealed_expires_at timestamp with time zone NOT NULL,
  opened_at timestamp with time zone DEFAULT now() NOT NULL,
  negotiation_expires_at timestamp with time zone NOT NULL,
  ticket_hash bytea,
  ticket_issued_at timestamp with time zone DEFAULT now() NOT NULL,
  ticket_previous_at timestamp with time zone,
  ticket_expires_at timestamp with time zone NOT NULL,
  kind text,
  handle text,
  operator text,
  attested boolean,
  params_key text,
  requested_at timestamp with time zone,
  held json,
  item json,
  decision text,
  decided_by text,
  decided_at timestamp with time zone,
  generation integer,
  decided_actor json,
  identity json,
  denial_reason text,
  owner_decision json
) WITH (fillfactor=80);
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
  issued_at timestamp with time zone DEFAULT now() NOT NULL,
  expires_at timestamp with time zone NOT NULL,
  consumed_at timestamp with time zone,
  org_epoch integer,
  org_handle_epoch integer,
  org_operator text,
  org_operator_epoch integer
) WITH (fillfactor=90);
CREATE TABLE heads (
  owner text NOT NULL,
  ledger bigint DEFAULT 0 NOT NULL,
  events bigint DEFAULT 0 NOT NULL,
  receipts bigint DEFAULT 0 NOT NULL
);
CREATE TABLE joint_accounts (
  owner text NOT NULL,
  account text NOT NULL,
  tally text NOT NULL,
  mandate json NOT NULL,
  mandate_s256 text NOT NULL,
  agreed_at timestamp with time zone DEFAULT now() NOT NULL,
  changed_s256 text,
  changed_told_at timestamp with time zone
);
CREATE TABLE joint_questions (
  owner text NOT NULL,
  tally text NOT NULL,
  account text NOT NULL,
  negotiation text NOT NULL,
  family text NOT NULL,
  resource_id text NOT NULL,
  contract text NOT NULL,
  asked_at timestamp with time zone DEFAULT now() NOT NULL,
  effect text,
  verdict text,
  handle text,
  operator text,
  tier_id text,
  signed_at timestamp with time zone,
  collect_until timestamp with time zone,
  relied_until timestamp with time zone,
  withdrawn_at timestamp with time zone
);
CREATE TABLE joint_withdrawals (
  owner text NOT NULL,
  id text NOT NULL,
  tally text NOT NULL,
  account text NOT NULL,
  negotiations text[],
  since timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
  matters_until timestamp with time zone NOT NULL,
  attempts integer DEFAULT 0 NOT NULL
);
CREATE TABLE ledger (
  owner text NOT NULL,
  id bigint DEFAULT insertion_id() NOT NULL,
  seq bigint,
  ts timestamp with time zone DEFAULT now() NOT NULL,
  kind text NOT NULL,
  family text,
  handle text,
  data json NOT NULL,
  count integer DEFAULT 1 NOT NULL,
  once_key text,
  resource_id text
);
CREATE TABLE locks (
  name text NOT NULL
);
CREATE TABLE logins (
  owner text NOT NULL,
  id text NOT NULL,
  issuer text NOT NULL,
  subject text NOT NULL,
  name text NOT NULL,
  bound_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE memberships (
  owner text NOT NULL,
  org_epoch integer DEFAULT 0 NOT NULL,
  issuer text,
  join_id text,
  token text,
  joined_at timestamp with time zone,
  agreed json,
  view json,
  read_at timestamp with time zone,
  administrators_may text[],
  clamped_fields text[] DEFAULT '{}'::text[] NOT NULL
);
CREATE TABLE moves (
  owner text NOT NULL,
  move text NOT NULL,
  state text NOT NULL,
  cell text NOT NULL,
  since timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);
CREATE TABLE namespaces (
  owner text NOT NULL,
  namespace text NOT NULL
);
CREATE TABLE notifications (
  owner text NOT NULL,
  id text NOT NULL,
  subscription text NOT NULL,
  family text NOT NULL,
  since timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
  at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);
CREATE TABLE operators (
  owner text NOT NULL,
  origin text NOT NULL,
  name text,
  blocked_at timestamp with time zone,
  mine boolean DEFAULT false NOT NULL,
  org_epoch integer DEFAULT 0 NOT NULL,
  org_blocked_in text
);
CREATE TABLE organization_calls (
  owner text NOT NULL,
  id text NOT NULL,
  kind text NOT NULL,
  issuer text NOT NULL,
  since timestamp with time zone DEFAULT now() NOT NULL,
  attempts integer DEFAULT 0 NOT NULL
);
CREATE TABLE owners (
  owner text NOT NULL,
  tag text NOT NULL,
  created_at timestamp with time zone DEFAULT now() NOT NULL,
  suspended_at timestamp with time zone
);
CREATE TABLE passkeys (
  owner text NOT NULL,
  id text NOT NULL,
  jwk json NOT NULL,
  rp_id text NOT NULL,
  name text NOT NULL,
  added_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
  removed_at timestamp with time zone
);
CREATE TABLE provisioned (
  owner text NOT NULL,
  kind text NOT NULL,
  item text NOT NULL,
  applied_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE queues (
  owner text NOT NULL
);
CREATE TABLE receipt_positions (
  owner text NOT NULL,
  jti text NOT NULL,
  id bigint DEFAULT insertion_id() NOT NULL,
  seq bigint
);
CREATE TABLE receipts (
  owner text NOT NULL,
  jti text NOT NULL,
  family text NOT NULL,
  handle text NOT NULL,
  issued_at timestamp with time zone DEFAULT now() NOT NULL,
  receipt text NOT NULL
);
CREATE TABLE recoveries (
  owner text NOT NULL,
  code_sha256 bytea NOT NULL,
  started_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
  in_force_at timestamp with time zone NOT NULL,
  expires_at timestamp with time zone NOT NULL
);
CREATE TABLE refusal_counts (
  owner text NOT NULL,
  minute timestamp with time zone NOT NULL,
  kind text NOT NULL,
  reason text NOT NULL,
  handle text NOT NULL,
  count integer NOT NULL,
  families text[] NOT NULL
);
CREATE TABLE registry_pulls (
  owner text NOT NULL,
  client_id text NOT NULL,
  attempt integer NOT NULL,
  tried_at timestamp with time zone NOT NULL,
  landed_at timestamp with time zone,
  failed_at timestamp with time zone,
  fault text,
  conflicts integer DEFAULT 0 NOT NULL
);
CREATE TABLE removals (
  owner text NOT NULL,
  created_at timestamp with time zone NOT NULL,
  began_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
  exported_at timestamp with time zone,
  ended_at timestamp with time zone
);
CREATE TABLE report_instances (
  owner text NOT NULL,
  client_id text NOT NULL,
  instance text NOT NULL,
  n bigint NOT NULL,
  previous bigint DEFAULT 0 NOT NULL,
  heard_at timestamp with time zone DEFAULT now() NOT NULL,
  ended boolean NOT NULL,
  unknown_at timestamp with time zone
);
CREATE TABLE resource_servers (
  owner text NOT NULL,
  client_id text NOT NULL,
  name text NOT NULL,
  resource_uri text NOT NULL,
  status text NOT NULL,
  auth text NOT NULL,
  secret_sha256 bytea,
  registered_at timestamp with time zone DEFAULT now() NOT NULL,
  decided_at timestamp with time zone,
  last_pat_issued timestamp with time zone,
  generation integer DEFAULT 1 NOT NULL,
  publishes boolean DEFAULT false NOT NULL
);
CREATE TABLE resources (
  owner text NOT NULL,
  resource_id text NOT NULL,
  client_id text NOT NULL,
  name text NOT NULL,
  type text,
  resource_scopes text[] NOT NULL,
  consequence text,
  source text NOT NULL,
  tools jsonb,
  org text,
  approval text
);
CREATE TABLE schema_migrations (
  number integer NOT NULL,
  party text NOT NULL,
  name text NOT NULL,
  sha256 text NOT NULL,
  needs integer,
  applied_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE session_keys (
  owner text NOT NULL,
  kid text NOT NULL,
  jwk json NOT NULL,
  name text NOT NULL,
  passkey text NOT NULL,
  enrolled_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
  expires_at timestamp with time zone NOT NULL,
  revoked_at timestamp with time zone
);
CREATE TABLE spent_assertions (
  digest bytea NOT NULL,
  owner text NOT NULL,
  expires_at timestamp with time zone NOT NULL
);
CREATE TABLE spent_signatures (
  owner text NOT NULL,
  digest bytea NOT NULL,
  expires_at timestamp with time zone NOT NULL
);
CREATE TABLE subscriptions (
  owner text NOT NULL,
  id text NOT NULL,
  kind text NOT NULL,
  name text NOT NULL,
  endpoint text NOT NULL,
  origin text NOT NULL,
  p256dh text,
  auth text,
  created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
  sent_at timestamp with time zone,
  failures integer DEFAULT 0 NOT NULL,
  failing_since timestamp with time zone,
  retry_at timestamp with time zone
);
CREATE TABLE terms_versions (
  owner text NOT NULL,
  tier_id text NOT NULL,
  version integer NOT NULL,
  name text NOT NULL,
  purpose text NOT NULL,
  scope text[] NOT NULL,
  expires_in integer NOT NULL,
  prohibited text[] NOT NULL,
  per_operation boolean NOT NULL,
  published_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE tier_resources (
  owner text NOT NULL,
  resource_id text NOT NULL,
  tier_id text NOT NULL,
  org text
);
CREATE TABLE tiers (
  owner text NOT NULL,
  tier_id text NOT NULL,
  name text NOT NULL,
  ask_me boolean NOT NULL,
  rules json NOT NULL,
  clearance json NOT NULL,
  version integer NOT NULL,
  epoch integer DEFAULT 1 NOT NULL,
  deleted_at timestamp with time zone
);
ALTER TABLE administrator_signatures ADD CONSTRAINT administrator_signatures_pkey PRIMARY KEY (digest);
ALTER TABLE banned_origins ADD CONSTRAINT banned_origins_pkey PRIMARY KEY (owner, origin);
ALTER TABLE connection_operators ADD CONSTRAINT connection_operators_pkey PRIMARY KEY (owner, handle, origin);
ALTER TABLE connection_tiers ADD CONSTRAINT connection_tiers_pkey PRIMARY KEY (owner, handle, tier_id);
ALTER TABLE connections ADD CONSTRAINT connections_admits_check CHECK ((admits = ANY (ARRAY['all'::text, 'tier'::text])));
ALTER TABLE connections ADD CONSTRAINT connections_identity_check CHECK ((identity = ANY (ARRAY['pseudonymous'::text, 'identified'::text])));
ALTER TABLE connections ADD CONSTRAINT connections_pkey PRIMARY KEY (owner, handle);
ALTER TABLE connections ADD CONSTRAINT connections_reach_check CHECK (((reach = 'organization'::text) OR (reach ~~ 'joint:_%'::text)));
ALTER TABLE connections ADD CONSTRAINT connections_status_check CHECK ((status = ANY (ARRAY['active'::text, 'revoked'::text])));
ALTER TABLE device_keys ADD CONSTRAINT device_keys_pkey PRIMARY KEY (owner, kid);
ALTER TABLE directory ADD CONSTRAINT directory_kind_check CHECK ((kind = ANY (ARRAY['tag'::text, 'device_key'::text, 'login'::text, 'name'::text, 'passkey'::text]))) NOT VALID;
ALTER TABLE directory ADD CONSTRAINT directory_pkey PRIMARY KEY (kind, key);
ALTER TABLE due ADD CONSTRAINT due_kind_check CHECK ((kind = ANY (ARRAY['sweep'::text, 'pull'::text, 'view'::text, 'tell'::text, 'compliance'::text, 'withdraw'::text, 'notify'::text])));
ALTER TABLE due ADD CONSTRAINT due_pkey PRIMARY KEY (owner, kind, client_id);
ALTER TABLE enrolment_codes ADD CONSTRAINT enrolment_codes_pkey PRIMARY KEY (owner);
ALTER TABLE events ADD CONSTRAINT events_pkey PRIMARY KEY (owner, id);
ALTER TABLE families ADD CONSTRAINT families_decision_check CHECK ((decision = ANY (ARRAY['approved'::text, 'denied'::text])));
ALTER TABLE families ADD CONSTRAINT families_kind_check CHECK ((kind = ANY (ARRAY['connection'::text, 'operation'::text])));
ALTER TABLE families ADD CONSTRAINT families_pkey PRIMARY KEY (owner, family);
ALTER TABLE families ADD CONSTRAINT families_state_check CHECK ((state = ANY (ARRAY['need_info'::text, 'awaiting_owner'::text, 'granted'::text, 'denied'::text, 'ended'::text])));
ALTER TABLE grants ADD CONSTRAINT grants_pkey PRIMARY KEY (owner, rpt_sha256);
ALTER TABLE heads ADD CONSTRAINT heads_pkey PRIMARY KEY (owner);
ALTER TABLE joint_accounts ADD CONSTRAINT joint_accounts_pkey PRIMARY KEY (owner, account);
ALTER TABLE joint_questions ADD CONSTRAINT joint_questions_effect_check CHECK ((effect = ANY (ARRAY['allow'::text, 'deny'::text])));
ALTER TABLE joint_questions ADD CONSTRAINT joint_questions_pkey PRIMARY KEY (owner, tally, account, negotiation);
ALTER TABLE joint_withdrawals ADD CONSTRAINT joint_withdrawals_pkey PRIMARY KEY (owner, id);
ALTER TABLE ledger ADD CONSTRAINT ledger_pkey PRIMARY KEY (owner, id);
ALTER TABLE locks ADD CONSTRAINT locks_pkey PRIMARY KEY (name);
ALTER TABLE logins ADD CONSTRAINT logins_pkey PRIMARY KEY (owner, id);
ALTER TABLE memberships ADD CONSTRAINT memberships_check CHECK ((num_nulls(issuer, join_id, token, joined_at, agreed, view, read_at, administrators_may) = ANY (ARRAY[0, 8])));
ALTER TABLE memberships ADD CONSTRAINT memberships_pkey PRIMARY KEY (owner);
ALTER TABLE moves ADD CONSTRAINT moves_pkey PRIMARY KEY (owner);
ALTER TABLE moves ADD CONSTRAINT moves_state_check CHECK ((state = ANY (ARRAY['here'::text, 'leaving'::text, 'gone'::text, 'arriving'::text])));
ALTER TABLE namespaces ADD CONSTRAINT namespaces_pkey PRIMARY KEY (owner, namespace);
ALTER TABLE notifications ADD CONSTRAINT notifications_pkey PRIMARY KEY (owner, id);
ALTER TABLE operators ADD CONSTRAINT operators_pkey PRIMARY KEY (owner, origin);
ALTER TABLE organization_calls ADD CONSTRAINT organization_calls_kind_check CHECK ((kind = ANY (ARRAY['join'::text, 'leave'::text, 'decline'::text])));
ALTER TABLE organization_calls ADD CONSTRAINT organization_calls_pkey PRIMARY KEY (owner, id);
ALTER TABLE owners ADD CONSTRAINT owners_pkey PRIMARY KEY (owner);
ALTER TABLE owners ADD CONSTRAINT owners_tag_key UNIQUE (tag);
ALTER TABLE passkeys ADD CONSTRAINT passkeys_pkey PRIMARY KEY (owner, id);
ALTER TABLE provisioned ADD CONSTRAINT provisioned_pkey PRIMARY KEY (owner, kind, item);
ALTER TABLE queues ADD CONSTRAINT queues_pkey PRIMARY KEY (owner);
ALTER TABLE receipt_positions ADD CONSTRAINT receipt_positions_pkey PRIMARY KEY (owner, jti);
ALTER TABLE receipts ADD CONSTRAINT receipts_pkey PRIMARY KEY (owner, jti);
ALTER TABLE recoveries ADD CONSTRAINT recoveries_pkey PRIMARY KEY (owner);
ALTER TABLE refusal_counts ADD CONSTRAINT refusal_counts_pkey PRIMARY KEY (owner, minute, kind, reason, handle);
ALTER TABLE registry_pulls ADD CONSTRAINT registry_pulls_pkey PRIMARY KEY (owner, client_id);
ALTER TABLE removals ADD CONSTRAINT removals_pkey PRIMARY KEY (owner);
ALTER TABLE report_instances ADD CONSTRAINT report_instances_pkey PRIMARY KEY (owner, client_id, instance);
ALTER TABLE resource_servers ADD CONSTRAINT resource_servers_auth_check CHECK ((auth = ANY (ARRAY['secret'::text, 'signature'::text])));
ALTER TABLE resource_servers ADD CONSTRAINT resource_servers_check CHECK (((auth = 'secret'::text) = (secret_sha256 IS NOT NULL)));
ALTER TABLE resource_servers ADD CONSTRAINT resource_servers_pkey PRIMARY KEY (owner, client_id);
ALTER TABLE resource_servers ADD CONSTRAINT resource_servers_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'active'::text, 'revoked'::text])));
ALTER TABLE resources ADD CONSTRAINT resources_approval_check CHECK ((approval = 'signed'::text));
ALTER TABLE resources ADD CONSTRAINT resources_org_check CHECK ((org = ANY (ARRAY['governed'::text, 'shared'::text])));
ALTER TABLE resources ADD CONSTRAINT resources_pkey PRIMARY KEY (owner, resource_id);
ALTER TABLE resources ADD CONSTRAINT resources_source_check CHECK ((source = ANY (ARRAY['provisioned'::text, 'pulled'::text, 'joint'::text])));
ALTER TABLE schema_migrations ADD CONSTRAINT schema_migrations_pkey PRIMARY KEY (number);
ALTER TABLE session_keys ADD CONSTRAINT session_keys_pkey PRIMARY KEY (owner, kid);
ALTER TABLE spent_assertions ADD CONSTRAINT spent_assertions_pkey PRIMARY KEY (digest);
ALTER TABLE spent_signatures ADD CONSTRAINT spent_signatures_pkey PRIMARY KEY (owner, digest);
ALTER TABLE subscriptions ADD CONSTRAINT subscriptions_check CHECK (((kind = 'push'::text) = ((p256dh IS NOT NULL) AND (auth IS NOT NULL))));
ALTER TABLE subscriptions ADD CONSTRAINT subscriptions_kind_check CHECK ((kind = ANY (ARRAY['webhook'::text, 'push'::text])));
ALTER TABLE subscriptions ADD CONSTRAINT subscriptions_owner_endpoint_key UNIQUE (owner, endpoint);
ALTER TABLE subscriptions ADD CONSTRAINT subscriptions_pkey PRIMARY KEY (owner, id);
ALTER TABLE terms_versions ADD CONSTRAINT terms_versions_pkey PRIMARY KEY (owner, tier_id, version);
ALTER TABLE tier_resources ADD CONSTRAINT tier_resources_org_check CHECK ((org = ANY (ARRAY['governed'::text, 'shared'::text])));
ALTER TABLE tier_resources ADD CONSTRAINT tier_resources_pkey PRIMARY KEY (owner, resource_id);
ALTER TABLE tiers ADD CONSTRAINT tiers_pkey PRIMARY KEY (owner, tier_id);
CREATE INDEX administrator_signatures_expiry ON administrator_signatures USING btree (expires_at);
CREATE INDEX connection_operators_origin ON connection_operators USING btree (owner, origin, handle);
CREATE INDEX connections_introducer ON connections USING btree (owner, introduced_by, handle) WHERE (introduced_by IS NOT NULL);
CREATE INDEX connections_key ON connections USING btree (owner, jkt) WHERE (jkt IS NOT NULL);
CREATE INDEX directory_cells ON directory USING btree (cell) WHERE (cell IS NOT NULL);
CREATE INDEX directory_removed_names ON directory USING btree (lower(key)) WHERE ((kind = 'name'::text) AND (owner = ''::text));
CREATE INDEX due_at ON due USING btree (kind, at);
CREATE UNIQUE INDEX events_order ON events USING btree (owner, seq) WHERE (seq IS NOT NULL);
CREATE INDEX events_unnumbered ON events USING btree (owner, id) WHERE (seq IS NULL);
CREATE INDEX families_sweep ON families USING btree (owner, ticket_expires_at);
CREATE UNIQUE INDEX families_ticket ON families USING btree (owner, ticket_hash) WHERE (ticket_hash IS NOT NULL);
CREATE INDEX families_waiting ON families USING btree (owner, requested_at, family) WHERE (state = 'awaiting_owner'::text);
CREATE INDEX families_waiting_handle ON families USING btree (owner, handle) WHERE (state = 'awaiting_owner'::text);
CREATE INDEX grants_expiry ON grants USING btree (owner, expires_at);
CREATE UNIQUE INDEX grants_jti ON grants USING btree (owner, jti);
CREATE INDEX grants_of_connection ON grants USING btree (owner, handle, generation, expires_at);
CREATE INDEX joint_questions_relied ON joint_questions USING btree (owner, relied_until) WHERE (withdrawn_at IS NULL);
CREATE INDEX joint_questions_sweep ON joint_questions USING btree (owner, GREATEST(asked_at, signed_at, relied_until));
CREATE INDEX joint_withdrawals_since ON joint_withdrawals USING btree (owner, tally, since);
CREATE INDEX ledger_handle ON ledger USING btree (owner, handle, seq) WHERE (handle IS NOT NULL);
CREATE INDEX ledger_handle_kind ON ledger USING btree (owner, (((handle || '
'::text) || kind)), seq) WHERE ((handle IS NOT NULL) AND (seq IS NOT NULL));
CREATE INDEX ledger_kind ON ledger USING btree (owner, kind, seq) WHERE (seq IS NOT NULL);
CREATE UNIQUE INDEX ledger_once ON ledger USING btree (owner, once_key) WHERE (once_key IS NOT NULL);
CREATE UNIQUE INDEX ledger_order ON ledger USING btree (owner, seq) WHERE (seq IS NOT NULL);
CREATE INDEX ledger_recent ON ledger USING btree (owner, handle, kind, ts) WHERE (kind = ANY (ARRAY['denied'::text, 'refused'::text, 'touched'::text]));
CREATE INDEX ledger_resource ON ledger USING btree (owner, resource_id, seq) WHERE (resource_id IS NOT NULL);
CREATE INDEX ledger_resource_handle ON ledger USING btree (owner, handle, resource_id, kind, ts) WHERE (resource_id IS NOT NULL);
CREATE INDEX ledger_unnumbered ON ledger USING btree (owner, id) WHERE (seq IS NULL);
CREATE INDEX notifications_subscription ON notifications USING btree (owner, subscription, since);
CREATE INDEX notifications_sweep ON notifications USING btree (owner, since);
CREATE UNIQUE INDEX organization_calls_join ON organization_calls USING btree (owner) WHERE (kind = 'join'::text);
CREATE INDEX receipts_family ON receipts USING btree (owner, family);
CREATE UNIQUE INDEX receipts_order ON receipt_positions USING btree (owner, seq) WHERE (seq IS NOT NULL);
CREATE INDEX receipts_unnumbered ON receipt_positions USING btree (owner, id) WHERE (seq IS NULL);
CREATE INDEX report_instances_heard ON report_instances USING btree (owner, heard_at);
CREATE INDEX resource_servers_pending ON resource_servers USING btree (owner) WHERE (status = 'pending'::text);
CREATE INDEX resources_by_server ON resources USING btree (owner, client_id);
CREATE INDEX spent_assertions_expiry ON spent_assertions USING btree (owner, expires_at);
CREATE INDEX spent_signatures_expiry ON spent_signatures USING btree (owner, expires_at);
CREATE INDEX tier_resources_tier ON tier_resources USING btree (owner, tier_id);
INSERT INTO schema_migrations (number, party, name, sha256, needs) VALUES (1, 'authority', '0001_owners.sql', 'b54d3120e70d70fec255a77473634004a192f34169cfc0c406add697b0c91b96', 1);
INSERT INTO schema_migrations (number, party, name, sha256, needs) VALUES (2, 'authority', '0002_resources.sql', '7f6ca677157174e96507fea991eb790826ebef93a50d4db5d4d86f19e6f0dddd', 2);
INSERT INTO schema_migrations (number, party, name, sha256, needs) VALUES (3, 'authority', '0003_connections.sql', 'e667c0f1fab9d2e9572cffe0077b7b4a5dc4eb3fd2cbc7fcf7dd80bce09c56fe', 3);
INSERT INTO schema_migrations (number, party, name, sha256, needs) VALUES (4, 'authority', '0004_negotiations.sql', '0bf4d5bb6b8bf3663ce44c56c78211bdfc555d9cd8ffdb7d58f281e27265cbed', 4);
INSERT INTO schema_migrations (number, party, name, sha256, needs) VALUES (5, 'authority', '0005_ledger.sql', 'f699ae353b4bbc2f02877da3a187c440e4c663eec87654fa529a3fd562f68488', 5);
INSERT INTO schema_migrations (number, party, name, sha256, needs) VALUES (6, 'authority', '0006_actors.sql', '2792899ff5ad8b1c5633195eafd782d01b236c1d4bbc059f46640c8055b7c197', 6);
INSERT INTO schema_migrations (number, party, name, sha256, needs) VALUES (7, 'authority', '0007_tools.sql', 'f3c99dd9713c36c5aed71a025fad144abab8247ff00224f760bf9d60b9482ec4', 7);
INSERT INTO schema_migrations (number, party, name, sha256, needs) VALUES (8, 'authority', '0008_due.sql', '2c24df9d2f5e3fb9324e142a4395ed32082c603e7b012d6f0c075369c873100a', 8);
INSERT INTO schema_migrations (number, party, name, sha256, needs) VALUES (9, 'authority', '0009_report_instances.sql', 'efe9d4217bcf653a367f6241086ba39262962f443cabaded4ab52736621d608f', 9);
INSERT INTO schema_migrations (number, party, name, sha256, needs) VALUES (10, 'authority', '0010_namespaces.sql', '797eb73c04ffa32994a248c29059b0316f795a3bfca436c41c8bd1f383778565', 10);
INSERT INTO schema_migrations (number, party, name, sha256, needs) VALUES (11, 'authority', '0011_banned_origins.sql', 'eab1a94fba8d660820d0d80d8673d363d44af1a1ac0fe57b0d9f8a961aacda8b', 11);
INSERT INTO schema_migrations (number, party, name, sha256, needs) VALUES (12, 'authority', '0012_memberships.sql', '9ad5b17a52d7ae4ea3ae71132b636f92fb81b6a9b2a5a090b57f6f21a374597c', 12);
INSERT INTO schema_migrations (number, party, name, sha256, needs) VALUES (13, 'authority', '0013_compliance.sql', '307835d26e0f142a0b0ee0d52fd47ffb5c5e844f79ed232a8d3bd184d1b98173', 13);
INSERT INTO schema_migrations (number, party, name, sha256, needs) VALUES (14, 'authority', '0014_organization_admin.sql', '73e6cc6b527ba86e2f0fad5e42ddbda0106933a60fafbe6a2c52dffc27368cf1', 14);
INSERT INTO schema_migrations (number, party, name, sha256, needs) VALUES (15, 'authority', '0015_identities.sql', '089259137ecb4c15b49ba1b75e3111e20f18eb0819628241e9d52275672e9922', 15);
INSERT INTO schema_migrations (number, party, name, sha256, needs) VALUES (16, 'authority', '0016_joint.sql', '5599e2dc9b64426a6a69b8afeb032f5fb12ea7422b03f13bd364d7e09f8ba9ad', 16);
INSERT INTO schema_migrations (number, party, name, sha256, needs) VALUES (17, 'authority', '0017_assertions.sql', '8cb5a357245d0ed4d832796aa7ddcf65714657156e1dc03721c89ec0fe925325', 17);
INSERT INTO schema_migrations (number, party, name, sha256, needs) VALUES (18, 'authority', '0018_joint_questions.sql', 'bb5b097a013207bca3e86d44d96ee878acb6354b158b1ded59a09f657982605e', 18);
INSERT INTO schema_migrations (number, party, name, sha256, needs) VALUES (19, 'authority', '0019_joint_withdrawals.sql', 'd5c2ef1e20d493e01b4b5b4a46a3e5595366d6e025baa8ea43a6b2bccbbc30f5', 19);
INSERT INTO schema_migrations (number, party, name, sha256, needs) VALUES (20, 'authority', '0020_joint_sweep.sql', 'c10cadd2ad555eea5b9d2c67ab0e1c677eeb795077b0acca6680810c296a4e9d', 20);
INSERT INTO schema_migrations (number, party, name, sha256, needs) VALUES (21, 'authority', '0021_owner_lifecycle.sql', 'a8f904ba1689ddd276eb4000511fd24384022b7b14c316ad09215d0cf08a9598', 21);
INSERT INTO schema_migrations (number, party, name, sha256, needs) VALUES (22, 'authority', '0022_owner_decisions.sql', '580b7b50f2a6449b942e3868f39d4f5cb067a56fc1f2ba9907f0230f05c1e6c9', 22);
INSERT INTO schema_migrations (number, party, name, sha256, needs) VALUES (23, 'authority', '0023_told_once.sql', 'ed025f3eb76d5cd444e93dad52375406bb18b955fe5a9da5ebdc89b4d9c63cb8', 23);
INSERT INTO schema_migrations (number, party, name, sha256, needs) VALUES (24, 'authority', '0024_signed_approvals.sql', 'aeafe9a12e49c231056934bd5bc18504ff8e019973665b3de01e8ee4dec14e18', 24);
INSERT INTO schema_migrations (number, party, name, sha256, needs) VALUES (25, 'authority', '0025_notifications.sql', '73ef01e180942a82098cb81dfcdde5da16c11caec38eaed4cf3ba5e154d6c9c6', 25);
INSERT INTO schema_migrations (number, party, name, sha256, needs) VALUES (26, 'authority', '0026_passkeys.sql', '2882040705e01109491e33f7c12e351d94b1b4ec01d31b4fd06b80ef5ac8b5ad', 0);
INSERT INTO schema_migrations (number, party, name, sha256, needs) VALUES (27, 'authority', '0027_cells.sql', 'cda17cbcb80f99ecc67a2e5bf61dc54dde3a6ff42c9e8601572ea6cd93bff469', 0);
