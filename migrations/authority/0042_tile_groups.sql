-- expand
-- What a proof of a large tree is made from, so that it costs little more than that of a small one: docs/details/ledger.md, "The tree of the ledger".
-- A program from before this migration writes none, and from where it wrote on, a tile's groups stay without.
ALTER TABLE ledger_tiles
  -- Above level 0: the root over each 16 hashes of the tile, one after the other, from its first group on. Null if none is known.
  ADD COLUMN group_roots bytea;
