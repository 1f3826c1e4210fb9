-- expand
-- A membership begins, and a window is opened, under the lock of the head; the start of a transaction may be
-- long before it has that lock. So a voucher of an ended membership was good for the next one, if whoever
-- joined again had waited for the lock since before the window was opened. Vouchers live for minutes, so none
-- is corrected.
ALTER TABLE members ALTER COLUMN joined_at SET DEFAULT clock_timestamp();
ALTER TABLE vouchers ALTER COLUMN opened_at SET DEFAULT clock_timestamp();
