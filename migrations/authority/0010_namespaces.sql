-- Below what else than her own name an owner's resource ids may stand.
CREATE TABLE namespaces (
  owner text NOT NULL,
  namespace text NOT NULL,
  PRIMARY KEY (owner, namespace)
);

-- `name` is whatever a resource id may begin with: the names of owners, and their namespaces. As one kind, so that the key keeps a namespace to
-- one owner, and from being the name of any, whichever of them comes first.
ALTER TABLE directory DROP CONSTRAINT directory_kind_check;
ALTER TABLE directory ADD CONSTRAINT directory_kind_check CHECK (kind IN ('tag', 'device_key', 'login', 'name'));

INSERT INTO directory (kind, key, owner) SELECT 'name', owner, owner FROM owners;
