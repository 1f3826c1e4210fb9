-- expand
-- The public keys that the provisioning file lists for a resource server which proves itself by signature (no key that it publishes counts
-- then), and those that it listed before, which stay in force until what took their place was used. A program from before this migration
-- looks for the keys at the resource's own origin.
ALTER TABLE resource_servers
  ADD COLUMN client_keys jsonb CHECK (client_keys IS NULL OR auth = 'signature'),
  ADD COLUMN former_keys jsonb;
