-- expand
-- Each place says itself when it is looked at, so that a grant within an allowance writes one row less. A program from before this migration says it in
-- `due`: such a place is looked at at once if it is new, or when its former grant would have ended, and again when its grant ends. It gives back what
-- such programs took and nothing else, so what newer ones took goes back where one of them runs. Its rows in `due` are no harm, and nobody reads them.
ALTER TABLE allowance_held ADD COLUMN due_at timestamptz NOT NULL DEFAULT now();
CREATE INDEX allowance_held_due ON allowance_held (due_at);
