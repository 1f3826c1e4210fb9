-- expand
-- Which hold of a tier on a resource a grant was made under. A hold is another one, for good, once an organization has governed the resource, or the resource
-- was out of the tier: no grant from before lives again when that is over. 0: since before this migration; also for what a program from before it writes.
ALTER TABLE tier_resources ADD COLUMN hold bigint NOT NULL DEFAULT 0;
ALTER TABLE grants ADD COLUMN hold bigint NOT NULL DEFAULT 0;
