-- What co-holders read of a call: which resource it was of and which agent's, which the grant does not outlive, and its place in the order of
-- arrival. Null of calls that were reported before this was kept.
ALTER TABLE accesses ADD COLUMN resource_id text, ADD COLUMN handle text, ADD COLUMN n bigint GENERATED ALWAYS AS IDENTITY;
CREATE UNIQUE INDEX accesses_listed ON accesses (account, n);
