-- expand
-- Each place says itself when it is looked at, so that a grant within an allowance writes one row less. A program from before this migration takes a
-- place without saying so: it is looked at at once, and again when its grant ends. Such a program gives back what it took itself and nothing else.
ALTER TABLE allowance_held ADD COLUMN due_at timestamptz NOT NULL DEFAULT now();
CREATE INDEX allowance_held_due ON allowance_held (due_at);
