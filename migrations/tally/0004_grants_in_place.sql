-- A grant's claims carry mandate and verdicts, some kilobytes. Kept in the row: each call reads them, and would else read a second table for it.
ALTER TABLE grants SET (toast_tuple_target = 8160);
