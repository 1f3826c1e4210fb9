-- What is told once, and a name that is given once.

-- When she was last told that a tally serves another mandate. A tally that serves two in turn is told of once an hour.
ALTER TABLE joint_accounts ADD COLUMN changed_told_at timestamptz;

-- Names of removed owners, by whatever case: a name is never given again in another one.
CREATE INDEX directory_removed_names ON directory (lower(key)) WHERE kind = 'name' AND owner = '';
