-- expand
-- How many questions of a tally are open is counted whenever it asks a new one; those that were answered stay for 8 days, and are not looked at for it.
CREATE INDEX joint_questions_open ON joint_questions (owner, tally) WHERE effect IS NULL;
