/**
 * The part of owners' records that a provisioning file may declare, as it is now; read for many owners at
 * once, so that a start can compare. Contract: "Policy vocabulary and tiers".
 */
import { sql } from 'kysely'
import type { Owner } from '../../../wire/identifiers.ts'
import type { Db } from '../database.ts'

/** One item. `item` is the name under which it is marked as applied. */
export interface DeclaredItem {
  owner: Owner
  kind: string
  item: string
  /** It is hers, in force. */
  stands: boolean
  values: Record<string, unknown>
  /** The operator's values of the file are taken over at each start. */
  follows: boolean
}

/**
 * All these items of these owners, by the JSON of `[owner, kind, item]`. There is nothing for an owner who is
 * not served.
 */
export async function readDeclared(db: Db, owners: readonly Owner[]): Promise<Map<string, DeclaredItem>> {
  const { rows } = await sql<DeclaredItem>`
    WITH asked AS (SELECT unnest(${[...owners]}::text[]) AS owner)
    SELECT k.owner, 'device_key' AS kind, k.kid AS item, k.revoked_at IS NULL AS stands, false AS follows, '{}'::json AS values
    FROM asked JOIN device_keys k USING (owner)
    UNION ALL
    SELECT l.owner, 'login', l.id, true, false, '{}'::json FROM asked JOIN logins l USING (owner)
    UNION ALL
    SELECT s.owner, 'resource_server', s.client_id, s.status = 'active', s.auth = 'secret' OR s.client_keys IS NOT NULL,
      json_build_object('name', s.name, 'resource_uri', s.resource_uri, 'publishes', s.publishes,
        'secret', encode(s.secret_sha256, 'hex'), 'jwks', s.client_keys)
    FROM asked JOIN resource_servers s USING (owner)
    UNION ALL
    SELECT r.owner, 'resource', r.resource_id, true, r.source = 'provisioned', json_build_object('client_id', r.client_id, 'name', r.name,
      'type', r.type, 'resource_scopes', r.resource_scopes, 'consequence', r.consequence)
    FROM asked JOIN resources r USING (owner)
    UNION ALL
    SELECT t.owner, 'tier', t.tier_id, t.deleted_at IS NULL, false, json_build_object('name', t.name, 'ask_me', t.ask_me,
      'rules', t.rules, 'clearance', t.clearance, 'purpose', v.purpose, 'scope', v.scope, 'expires_in', v.expires_in,
      'prohibited', v.prohibited, 'per_operation', v.per_operation, 'resources',
      ARRAY(SELECT tr.resource_id FROM tier_resources tr WHERE tr.owner = t.owner AND tr.tier_id = t.tier_id
        ORDER BY tr.resource_id COLLATE "C"))
    FROM asked JOIN tiers t USING (owner)
    JOIN terms_versions v ON v.owner = t.owner AND v.tier_id = t.tier_id AND v.version = t.version`.execute(
    db,
  )
  return new Map(rows.map(row => [JSON.stringify([row.owner, row.kind, row.item]), row]))
}
