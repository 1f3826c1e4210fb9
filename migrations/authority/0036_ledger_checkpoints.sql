-- expand
-- The last signed checkpoint of each owner's ledger, one for each origin that she had: docs/choices.md, "Checkpoints of the ledger". A program from
-- before this migration signs none, and its numbering goes on as it is.
CREATE TABLE ledger_checkpoints (
  owner text NOT NULL,
  -- The issuer without its scheme, `/ledger/` and her routing tag.
  origin text NOT NULL,
  -- How many entries it covers. It never falls.
  size bigint NOT NULL,
  root bytea NOT NULL,
  -- The `kid` of the log's key that signed it.
  kid text NOT NULL,
  -- The signed note, as it is answered.
  note text NOT NULL,
  signed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (owner, origin)
);
