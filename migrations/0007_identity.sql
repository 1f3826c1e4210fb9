-- The key that an agent proved when the owner last approved it (or when it was introduced), by thumbprint: the handle of
-- an identified agent does not name its key. It says which key an operator must publish beside a newcomer's, which agents
-- an operator's directory lists, and that a key whose connection was ended comes back under another handle.
ALTER TABLE connections ADD COLUMN jkt text;
UPDATE connections SET jkt = substr(handle, 5) WHERE identity = 'pseudonymous';
CREATE INDEX connections_key ON connections (owner, jkt) WHERE jkt IS NOT NULL;
