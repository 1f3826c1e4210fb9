-- expand
-- Witnesses of ledgers: docs/details/ledger.md, "Witnesses". A program from before this migration asks none, and signs on where one has seen more.
ALTER TABLE ledger_checkpoints
  -- So many entries a witness has cosigned, more than the tree has: nothing is signed at this origin any more.
  ADD COLUMN lost_size bigint;
-- The newest checkpoint of each origin that a witness has cosigned.
CREATE TABLE witnessed_checkpoints (
  owner text NOT NULL,
  origin text NOT NULL,
  size bigint NOT NULL,
  -- The signed note, and the lines of cosignatures behind it.
  note text NOT NULL,
  cosignatures text NOT NULL,
  PRIMARY KEY (owner, origin)
);
-- What each witness has cosigned last, as far as is known: a proof to it begins there.
CREATE TABLE witness_sizes (
  owner text NOT NULL,
  origin text NOT NULL,
  -- The thumbprint of its key (RFC 7638).
  witness text NOT NULL,
  size bigint NOT NULL,
  PRIMARY KEY (owner, origin, witness)
);
ALTER TABLE due DROP CONSTRAINT due_kind_check;
ALTER TABLE due ADD CONSTRAINT due_kind_check
  CHECK (kind IN ('sweep', 'pull', 'view', 'tell', 'compliance', 'withdraw', 'notify', 'witness'));
