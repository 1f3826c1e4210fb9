-- The tools that touch a resource, by name: the consequence class declared of each, null where it declares none. Null as a whole where the resource
-- server does not tell its tools apart; then `consequence` stands for each of them.
ALTER TABLE resources ADD COLUMN tools jsonb;
