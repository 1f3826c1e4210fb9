-- What is to be done for an owner later, and when: so that nobody has to go through all owners to find it. Like the directory it is routing: found by
-- time, across owners; whatever is then done stays inside one owner. A row that is taken is due again when its time with the taker has passed.
CREATE TABLE due (
  owner text NOT NULL,
  -- `sweep`: her rows that no answer depends on any more, and entries without a position. `pull`: what one of her resource servers publishes.
  kind text NOT NULL CHECK (kind IN ('sweep', 'pull')),
  -- Of the resource server, where one is to be pulled from; empty else.
  client_id text NOT NULL DEFAULT '',
  at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (owner, kind, client_id)
);
CREATE INDEX due_at ON due (kind, at);

-- Spread over an hour, within which each owner is looked at anyway.
INSERT INTO due (owner, kind, at) SELECT owner, 'sweep', now() + random() * interval '1 hour' FROM owners;
INSERT INTO due (owner, kind, client_id) SELECT owner, 'pull', client_id FROM resource_servers WHERE status = 'active' AND publishes;
