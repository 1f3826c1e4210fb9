-- expand
-- The entries of an owner are the leaves of a Merkle tree (RFC 9162), so that others can find out whether one was changed, removed or put in later:
-- docs/choices.md, "The tree of the ledger". Entries from before this migration, or numbered by a program from before it, get salt and leaf later, by
-- src/storage/authority/ledger/ledger-tree.ts.

ALTER TABLE ledger
  -- 16 random bytes: nobody guesses an entry from its leaf.
  ADD COLUMN salt bytea,
  -- The hash of the entry in the tree, given with the position, and never changed after.
  ADD COLUMN leaf bytea,
  -- With a handle: the position of that handle's entry before, or 0; given with the leaf.
  ADD COLUMN prev bigint;
-- By itself, so that no row that stands is written anew.
ALTER TABLE ledger ALTER COLUMN salt
  SET DEFAULT substring(sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())) FOR 16);

ALTER TABLE heads
  -- How many positions the tree covers: fewer than `ledger` only where older entries wait for their leaves.
  ADD COLUMN tree_size bigint NOT NULL DEFAULT 0,
  -- Null for the tree without leaves.
  ADD COLUMN tree_root bytea,
  -- The roots of the perfect subtrees that it consists of, the largest first.
  ADD COLUMN frontier bytea NOT NULL DEFAULT '';

-- Of a level, the hashes from 256 * index on, one after the other: 256 in a full tile. A tile of level 0 that is not full holds the leaves of entries
-- that are deleted, and no others: the rest are with their entries.
CREATE TABLE ledger_tiles (
  owner text NOT NULL,
  level integer NOT NULL,
  index bigint NOT NULL,
  hashes bytea NOT NULL,
  PRIMARY KEY (owner, level, index)
);
-- Hashes cannot be compressed.
ALTER TABLE ledger_tiles ALTER COLUMN hashes SET STORAGE EXTERNAL;

-- The position of the last deleted entry of a handle, for the next one's `prev`.
CREATE TABLE ledger_tails (
  owner text NOT NULL,
  handle text NOT NULL,
  seq bigint NOT NULL,
  PRIMARY KEY (owner, handle)
);
