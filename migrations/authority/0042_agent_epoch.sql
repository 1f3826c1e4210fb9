-- expand
-- An exercise, which the next commit takes back: a made-up epoch of an agent that a grant rests on for life. A grant that a program from before
-- this migration makes has epoch 0.
ALTER TABLE connections ADD COLUMN agent_epoch integer NOT NULL DEFAULT 0;
ALTER TABLE grants ADD COLUMN agent_epoch integer NOT NULL DEFAULT 0;
