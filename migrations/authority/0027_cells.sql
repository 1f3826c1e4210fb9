-- expand
-- Owners divided between several Postgres clusters, the cells of one authority. The one that DATABASE_URL leads to holds the directory of all.

-- Of the row of an owner's name (kind 'name', key her name), in the directory of all: the cell where she is, null for the directory's own; and the move that
-- may change that, so that one which was broken off and taken back cannot.
ALTER TABLE directory ADD COLUMN cell text, ADD COLUMN move text;
CREATE INDEX directory_cells ON directory (cell) WHERE cell IS NOT NULL;

-- In each cell: owners who were ever moved into it or out of it. One without a row is where she was made. Whoever answers for her reads this before and
-- afterwards, and gives the answer out only if both say that she is here by the same move: so what was acknowledged was committed before she began to leave.
CREATE TABLE moves (
  owner text PRIMARY KEY,
  move text NOT NULL,
  state text NOT NULL CHECK (state IN ('here', 'leaving', 'gone', 'arriving')),
  -- Whence she came, or where she goes.
  cell text NOT NULL,
  since timestamptz NOT NULL DEFAULT clock_timestamp()
);
