-- expand
-- When an address is told of what can be undone: not in quiet hours ({from, until, time_zone}), and several messages together, once the oldest has waited so
-- many minutes. Null: at once.
ALTER TABLE subscriptions ADD COLUMN quiet_hours json, ADD COLUMN digest_minutes integer;

-- A program from before this migration writes messages that may not wait, and sends each that is due by itself.
ALTER TABLE notifications
  ADD COLUMN may_wait boolean NOT NULL DEFAULT false,
  -- Until when it is held back, or was the last time.
  ADD COLUMN held_until timestamptz,
  -- For how long it was held back in all: this time does not count when it is given up.
  ADD COLUMN held_seconds double precision NOT NULL DEFAULT 0;
