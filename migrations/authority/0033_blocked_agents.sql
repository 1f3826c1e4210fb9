-- expand
-- When the owner blocked an agent: from then on neither its handle nor its key may ask. It stands on the connection, which is made, as
-- one that was ended, for an agent that only waited.
ALTER TABLE connections ADD COLUMN blocked_at timestamptz;
