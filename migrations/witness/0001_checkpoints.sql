-- expand
-- What a witness has cosigned: docs/details/witness.md. A row is never deleted: whoever loses one cosigns a tree that contradicts it.
CREATE TABLE issuers (
  -- An authority whose logs are taken, as the file of issuers names it.
  issuer text PRIMARY KEY,
  -- How many rows of `checkpoints` are of its logs.
  logs bigint NOT NULL
);
-- Of each log the last checkpoint that was cosigned.
CREATE TABLE checkpoints (
  origin text PRIMARY KEY,
  issuer text NOT NULL,
  -- How many entries it covers. It never falls.
  size bigint NOT NULL,
  root bytea NOT NULL,
  -- The time in the last cosignature, to the second below. It never falls, either.
  cosigned_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  first_cosigned_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
