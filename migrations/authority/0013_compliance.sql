-- What a member's organization is told: that its ceiling was applied, and which fields it cut.

-- Names of fields of her tiers that the ceiling has cut since she joined; never what they were, nor of which tier.
ALTER TABLE memberships ADD COLUMN clamped_fields text[] NOT NULL DEFAULT '{}';

-- `compliance`: her organization is to be told so, after each cut and daily.
ALTER TABLE due DROP CONSTRAINT due_kind_check;
ALTER TABLE due ADD CONSTRAINT due_kind_check CHECK (kind IN ('sweep', 'pull', 'view', 'tell', 'compliance'));

-- Who is a member already is reported within a day.
INSERT INTO due (owner, kind, at)
  SELECT owner, 'compliance', now() + random() * interval '1 day' FROM memberships WHERE issuer IS NOT NULL;
