-- Who decided, beside the word in decided_by: the owner, by which of her credentials, or an administrator of her organization.
ALTER TABLE families ADD COLUMN decided_actor json;
