-- The ledger of one agent in one kind, oldest first. Over two columns the planner would still walk one filter's entries for the other's,
-- all of them where the two never met; over what they make together there is one way to read.
CREATE INDEX ledger_handle_kind ON ledger (owner, (handle || E'\n' || kind), seq) WHERE handle IS NOT NULL AND seq IS NOT NULL;

-- What an agent did lately, for the rules that count it (`standing.denials_above`, `standing.calls_above`): read only as far as the rule's number.
CREATE INDEX ledger_recent ON ledger (owner, handle, kind, ts) WHERE kind IN ('denied', 'refused', 'touched');
