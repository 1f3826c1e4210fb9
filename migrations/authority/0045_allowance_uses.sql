-- expand
-- When a lineage last took of a window, to the minute, so that its owner finds those that did so lately among any number of them. It is null where all
-- her agents share one set of windows. A program from before this migration writes none, and a lineage that took only by such a program is read last.
ALTER TABLE allowance_windows ADD COLUMN used_at timestamptz;
CREATE INDEX allowance_windows_used ON allowance_windows (owner, allowance, used_at DESC NULLS LAST) WHERE whose <> '';
