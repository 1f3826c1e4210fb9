-- expand
-- How many acts ended something of an owner's: docs/choices.md, "What judged a call". A program from before this migration does not count,
-- so whoever compares calls with a revocation does so once no such program runs.
ALTER TABLE queues ADD COLUMN ends bigint NOT NULL DEFAULT 0;
