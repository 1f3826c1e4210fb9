-- Answered questions go some time after the last that was asked, signed or relied on: the sweep finds them by that.
DROP INDEX joint_questions_asked;
CREATE INDEX joint_questions_sweep ON joint_questions (owner, greatest(asked_at, signed_at, relied_until));
