-- Origins whose resource servers may not register with an owner. A registration and a ban both hold the lock of her queue, so either the ban finds
-- what waits, or the registration finds the ban.
CREATE TABLE banned_origins (
  owner text NOT NULL,
  origin text NOT NULL,
  banned_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (owner, origin)
);
