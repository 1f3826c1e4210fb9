-- expand
-- The checkpoint that was signed last before an hour, and the origin of a ledger after a restore: docs/choices.md, "Heads that others keep". A program
-- from before this migration signs on at the origin that it knows, so run `usher authority after-restore` when none runs.
ALTER TABLE ledger_checkpoints
  -- Hours since the epoch. `hour_note` was signed last before this hour began.
  ADD COLUMN hour bigint,
  ADD COLUMN hour_note text,
  ADD COLUMN hour_kid text,
  -- When another origin took the place of this one, at which nothing is signed any more.
  ADD COLUMN ended_at timestamptz;
-- Seconds since the epoch: the last part of the origin. Null: the origin ends with her routing tag.
ALTER TABLE heads ADD COLUMN origin_at bigint;
