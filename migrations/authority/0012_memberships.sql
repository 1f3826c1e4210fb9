-- Membership of an organization: what an owner agreed to, what the organization says now, and which of her resources that reaches. Revoking touches no
-- grant: a membership, a connection and an operator each have an epoch, a grant on a governed resource carries the three that it was issued under, and
-- lives only while they are the present ones.

CREATE TABLE memberships (
  owner text PRIMARY KEY,
  -- Raised by whatever takes access away, lowered by nothing, and kept when she leaves: so joining again revives no grant.
  org_epoch integer NOT NULL DEFAULT 0,
  -- From here on null where she is no member.
  issuer text,
  join_id text,
  token text,
  joined_at timestamptz,
  agreed json,
  view json,
  -- When the organization last said that this is her view.
  read_at timestamptz,
  administrators_may text[],
  CHECK (num_nulls(issuer, join_id, token, joined_at, agreed, view, read_at, administrators_may) IN (0, 8))
);

-- What an organization is to be told, and joins that are under way: whatever is not told as done is taken back.
CREATE TABLE organization_calls (
  owner text NOT NULL,
  -- The join's, or one of its own.
  id text NOT NULL,
  kind text NOT NULL CHECK (kind IN ('join', 'leave', 'decline')),
  issuer text NOT NULL,
  since timestamptz NOT NULL DEFAULT now(),
  attempts integer NOT NULL DEFAULT 0,
  PRIMARY KEY (owner, id)
);
CREATE UNIQUE INDEX organization_calls_join ON organization_calls (owner) WHERE kind = 'join';

-- How a resource stands under the membership; null: it is her own. On the tier's hold on it likewise, where a call finds it without looking further.
ALTER TABLE resources ADD COLUMN org text CHECK (org IN ('governed', 'shared'));
ALTER TABLE tier_resources ADD COLUMN org text CHECK (org IN ('governed', 'shared'));

ALTER TABLE connections ADD COLUMN org_epoch integer NOT NULL DEFAULT 0;
ALTER TABLE operators ADD COLUMN org_epoch integer NOT NULL DEFAULT 0;

-- Null where the resource was not governed when the grant was made.
ALTER TABLE grants ADD COLUMN org_epoch integer;
ALTER TABLE grants ADD COLUMN org_handle_epoch integer;
ALTER TABLE grants ADD COLUMN org_operator text;
ALTER TABLE grants ADD COLUMN org_operator_epoch integer;

-- `view`: her organization is to be asked how it stands. `tell`: it is to be told something.
ALTER TABLE due DROP CONSTRAINT due_kind_check;
ALTER TABLE due ADD CONSTRAINT due_kind_check CHECK (kind IN ('sweep', 'pull', 'view', 'tell'));
