-- Each list that an administrator reads, and each sweep, finds its rows by an index. Applied in the transaction
-- that checks the version; a newer program refuses to start without it.
DROP INDEX members_role;
CREATE INDEX members_role ON members (role, owner);
-- Of the notices that were given up, the newest of one membership.
CREATE INDEX notices_given_up ON notices (owner, membership, place DESC) WHERE stopped_at IS NOT NULL;
CREATE INDEX wrong_codes_hour ON wrong_codes (hour);
