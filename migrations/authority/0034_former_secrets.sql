-- expand
-- The client secret that the provisioning file named before. It stays in force until the newer one was used, so that a rotation has no gap. A program
-- from before this migration takes the newer one alone.
ALTER TABLE resource_servers ADD COLUMN former_secret_sha256 bytea;
