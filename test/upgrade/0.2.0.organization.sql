-- The schema of the organization of usher 0.2.0: written by `make upgrade-package`, never by hand.
CREATE TABLE activity (
  seq bigint NOT NULL,
  ts timestamp with time zone DEFAULT now() NOT NULL,
  kind text NOT NULL,
  admin text,
  owner text,
  data json NOT NULL
);
CREATE TABLE break_glass_grants (
  jti text NOT NULL,
  owner text NOT NULL,
  membership text NOT NULL,
  aud text NOT NULL,
  state text NOT NULL,
  rpt_sha256 bytea,
  claims json,
  held_at timestamp with time zone DEFAULT now() NOT NULL,
  expires_at timestamp with time zone NOT NULL
);
CREATE TABLE charters (
  version bigint NOT NULL,
  s256 text NOT NULL,
  charter json NOT NULL,
  published_at timestamp with time zone DEFAULT now() NOT NULL,
  by text NOT NULL
);
CREATE TABLE head (
  one boolean DEFAULT true NOT NULL,
  version bigint DEFAULT 0 NOT NULL,
  activity bigint DEFAULT 0 NOT NULL
);
CREATE TABLE invitations (
  code_id text NOT NULL,
  owner text NOT NULL,
  as_uri text NOT NULL,
  note text,
  code_sha256 bytea NOT NULL,
  invited_at timestamp with time zone DEFAULT now() NOT NULL,
  expires_at timestamp with time zone NOT NULL,
  answer text
);
CREATE TABLE join_code (
  one boolean DEFAULT true NOT NULL,
  code_sha256 bytea NOT NULL,
  rotated_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE locks (
  name text NOT NULL
);
CREATE TABLE members (
  owner text NOT NULL,
  as_uri text NOT NULL,
  join_id text NOT NULL,
  role text,
  joined_at timestamp with time zone DEFAULT now() NOT NULL,
  agreed_version bigint NOT NULL,
  view bigint DEFAULT 1 NOT NULL,
  view_version bigint NOT NULL,
  clearance json DEFAULT '{}'::json NOT NULL,
  compliance json,
  compliance_at timestamp with time zone
);
CREATE TABLE notice_lines (
  owner text NOT NULL,
  membership text NOT NULL,
  line text NOT NULL,
  as_uri text NOT NULL,
  due_at timestamp with time zone DEFAULT now() NOT NULL,
  attempts integer DEFAULT 0 NOT NULL
);
CREATE TABLE notices (
  jti text NOT NULL,
  place bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
  owner text NOT NULL,
  membership text NOT NULL,
  line text NOT NULL,
  notice json NOT NULL,
  made_at timestamp with time zone DEFAULT now() NOT NULL,
  status integer,
  stopped_at timestamp with time zone
);
CREATE TABLE schema_migrations (
  number integer NOT NULL,
  party text NOT NULL,
  name text NOT NULL,
  sha256 text NOT NULL,
  needs integer,
  applied_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE spent_signatures (
  digest bytea NOT NULL,
  expires_at timestamp with time zone NOT NULL
);
CREATE TABLE vouchers (
  voucher_sha256 bytea NOT NULL,
  owner text NOT NULL,
  admin text NOT NULL,
  reason text NOT NULL,
  opened_at timestamp with time zone DEFAULT now() NOT NULL,
  expires_at timestamp with time zone NOT NULL,
  held_by text,
  held_until timestamp with time zone,
  spent_at timestamp with time zone
);
CREATE TABLE wrong_codes (
  name text NOT NULL,
  hour timestamp with time zone NOT NULL,
  count integer NOT NULL
);
ALTER TABLE activity ADD CONSTRAINT activity_pkey PRIMARY KEY (seq);
ALTER TABLE break_glass_grants ADD CONSTRAINT break_glass_grants_pkey PRIMARY KEY (jti);
ALTER TABLE break_glass_grants ADD CONSTRAINT break_glass_grants_rpt_sha256_key UNIQUE (rpt_sha256);
ALTER TABLE break_glass_grants ADD CONSTRAINT break_glass_grants_state_check CHECK ((state = ANY (ARRAY['held'::text, 'live'::text, 'void'::text, 'consumed'::text])));
ALTER TABLE charters ADD CONSTRAINT charters_pkey PRIMARY KEY (version);
ALTER TABLE head ADD CONSTRAINT head_one_check CHECK (one);
ALTER TABLE head ADD CONSTRAINT head_pkey PRIMARY KEY (one);
ALTER TABLE invitations ADD CONSTRAINT invitations_answer_check CHECK ((answer = ANY (ARRAY['joined'::text, 'declined'::text, 'withdrawn'::text])));
ALTER TABLE invitations ADD CONSTRAINT invitations_pkey PRIMARY KEY (code_id);
ALTER TABLE join_code ADD CONSTRAINT join_code_one_check CHECK (one);
ALTER TABLE join_code ADD CONSTRAINT join_code_pkey PRIMARY KEY (one);
ALTER TABLE locks ADD CONSTRAINT locks_pkey PRIMARY KEY (name);
ALTER TABLE members ADD CONSTRAINT members_pkey PRIMARY KEY (owner);
ALTER TABLE notice_lines ADD CONSTRAINT notice_lines_pkey PRIMARY KEY (owner, membership, line);
ALTER TABLE notices ADD CONSTRAINT notices_pkey PRIMARY KEY (jti);
ALTER TABLE schema_migrations ADD CONSTRAINT schema_migrations_pkey PRIMARY KEY (number);
ALTER TABLE spent_signatures ADD CONSTRAINT spent_signatures_pkey PRIMARY KEY (digest);
ALTER TABLE vouchers ADD CONSTRAINT vouchers_pkey PRIMARY KEY (voucher_sha256);
ALTER TABLE wrong_codes ADD CONSTRAINT wrong_codes_pkey PRIMARY KEY (name, hour);
CREATE INDEX break_glass_grants_expiry ON break_glass_grants USING btree (expires_at);
CREATE INDEX break_glass_grants_held ON break_glass_grants USING btree (held_at) WHERE (state = 'held'::text);
CREATE INDEX invitations_expiry ON invitations USING btree (expires_at);
CREATE INDEX invitations_person ON invitations USING btree (owner, as_uri);
CREATE INDEX members_role ON members USING btree (role);
CREATE INDEX notice_lines_due ON notice_lines USING btree (due_at);
CREATE INDEX notices_line ON notices USING btree (owner, membership, line, place) WHERE (stopped_at IS NULL);
CREATE INDEX notices_stopped ON notices USING btree (stopped_at) WHERE (stopped_at IS NOT NULL);
CREATE INDEX spent_signatures_expiry ON spent_signatures USING btree (expires_at);
CREATE INDEX vouchers_expiry ON vouchers USING btree (expires_at);
INSERT INTO schema_migrations (number, party, name, sha256, needs) VALUES (1, 'organization', '0001_charter.sql', '068b65afc4eb81bd4eb82c187f404cb515ae5874ae9357f164c41c58a296ffdd', 1);
INSERT INTO schema_migrations (number, party, name, sha256, needs) VALUES (2, 'organization', '0002_invitations.sql', '67e239480cab1080e836bb7d365d2a9d88db879559922d2abf7a649fde3e3081', 2);
INSERT INTO schema_migrations (number, party, name, sha256, needs) VALUES (3, 'organization', '0003_notices.sql', '6cfd8142591fa65a18c5677deb295928c9eb07f7387c14ae1e979e8a7678e47b', 3);
INSERT INTO schema_migrations (number, party, name, sha256, needs) VALUES (4, 'organization', '0004_break_glass.sql', '983239efe3508f2bc7eb2be6c71c23151f0b10c4a0366dbfe7c7bb187a3eca6b', 4);
