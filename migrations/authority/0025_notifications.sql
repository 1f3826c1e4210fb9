-- Where an owner is told that something waits for her, and what is still to be told. No secret of a webhook stands here: each is made of the key of the
-- installation and the name of its subscription.
CREATE TABLE subscriptions (
  owner text NOT NULL,
  id text NOT NULL,
  kind text NOT NULL CHECK (kind IN ('webhook', 'push')),
  name text NOT NULL,
  -- Whole, and what of it is shown: whoever has the address of a push subscription, or of many a relay, may send there.
  endpoint text NOT NULL,
  origin text NOT NULL,
  -- Of the browser, for which alone a push is readable.
  p256dh text,
  auth text,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  sent_at timestamptz,
  -- Since the last message that was taken.
  failures integer NOT NULL DEFAULT 0,
  failing_since timestamptz,
  retry_at timestamptz,
  PRIMARY KEY (owner, id),
  UNIQUE (owner, endpoint),
  CHECK ((kind = 'push') = (p256dh IS NOT NULL AND auth IS NOT NULL))
);

-- One message to one of them, until it was taken, is not worth telling any more, or is too old. What it says is read when it is sent.
CREATE TABLE notifications (
  owner text NOT NULL,
  -- The same at each attempt.
  id text NOT NULL,
  subscription text NOT NULL,
  family text NOT NULL,
  since timestamptz NOT NULL DEFAULT clock_timestamp(),
  -- When it may be taken; who takes it moves this on, so that nobody sends it meanwhile.
  at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (owner, id)
);
CREATE INDEX notifications_subscription ON notifications (owner, subscription, since);
CREATE INDEX notifications_sweep ON notifications (owner, since);

-- `notify`: one of her subscriptions is to be sent to; its id stands in the place of a resource server.
ALTER TABLE due DROP CONSTRAINT due_kind_check;
ALTER TABLE due ADD CONSTRAINT due_kind_check CHECK (kind IN ('sweep', 'pull', 'view', 'tell', 'compliance', 'withdraw', 'notify'));
