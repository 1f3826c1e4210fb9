-- What an owner says with a decision: why she denied, and the statement that she signed with the item that it is over.
ALTER TABLE families ADD COLUMN denial_reason text, ADD COLUMN owner_decision json;
