-- Resource servers that register themselves, and the registry that is pulled from what they publish.

ALTER TABLE resource_servers
  -- Counted up by each withdrawal. A PAT carries the one it was issued under, so approving again revives none.
  ADD COLUMN generation integer NOT NULL DEFAULT 1,
  -- Whether its resources are pulled from it; those of a provisioned one are, by default, only what the file says.
  ADD COLUMN publishes boolean NOT NULL DEFAULT false;
CREATE INDEX resource_servers_pending ON resource_servers (owner) WHERE status = 'pending';

CREATE INDEX resources_by_server ON resources (owner, client_id);

-- How the pull from each source went. `attempt` names the pull under way: what an earlier one brings is dropped.
CREATE TABLE registry_pulls (
  owner text NOT NULL,
  client_id text NOT NULL,
  attempt integer NOT NULL,
  tried_at timestamptz NOT NULL,
  landed_at timestamptz,
  failed_at timestamptz,
  fault text,
  -- Listed resources that were not taken, because they are another active server's.
  conflicts integer NOT NULL DEFAULT 0,
  PRIMARY KEY (owner, client_id)
);
