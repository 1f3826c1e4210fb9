-- Administrators of an organization at a member: what they may read of her ledger, and what they did to agents that touch what it governs.

-- Which resource an entry is about, where an organization governed it when it was written: what that may be shown. Null in every other.
ALTER TABLE ledger ADD COLUMN resource_id text;
CREATE INDEX ledger_resource ON ledger (owner, resource_id, seq) WHERE resource_id IS NOT NULL;
CREATE INDEX ledger_resource_handle ON ledger (owner, handle, resource_id, kind, ts) WHERE resource_id IS NOT NULL;

-- What a connection holds for: everything (null), what an organization governs, or one joint account (`joint:` and its name). For any other resource
-- the agent is a stranger. A narrower one was admitted by somebody who is not the owner, and ends with what it came by.
ALTER TABLE connections ADD COLUMN reach text CHECK (reach = 'organization' OR reach LIKE 'joint:_%');

-- The membership (its join's id) under which the organization ended an agent's reach, or blocked an operator. It holds for what that governs, and no
-- longer than the membership stands.
ALTER TABLE connections ADD COLUMN org_ended_in text;
ALTER TABLE operators ADD COLUMN org_blocked_in text;
