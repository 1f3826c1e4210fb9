/**
 * Everything that an owner has here, read page by page: the contents of her archive. It contains no secret,
 * and not even the hashes of resource servers' secrets, codes and tokens. Contract: "Owner API", "Resources
 * and their fields".
 */
import { sql } from 'kysely'
import { decodeBase64url, encodeBase64url } from '../../../wire/encoding.ts'
import type { Owner } from '../../../wire/identifiers.ts'
import type { ArchiveLine } from '../../../wire/owner/owner-api.ts'
import type { Db, Tx } from '../database.ts'
import { number } from '../ledger/positions.ts'
import { RECEIPT_OF_POSITION } from '../ledger/receipts.ts'
import { inIndexOrder } from '../../core/batch.ts'
import type { KeyPage } from '../../core/columns.ts'

/**
 * Bytes of JSON: a page ends with the row that exceeds this, so that an answer stays far below what a client
 * accepts.
 */
const PAGE_CHARACTERS = 1_000_000

interface ArchivePart {
  name: string
  columns: string
  /** `seq` is read as a number, every other column as text. */
  key: readonly string[]
  from?: string
}

const PARTS: readonly ArchivePart[] = [
  { name: 'owner', columns: 'owner, created_at', key: ['owner'], from: '(TABLE only_owner) p' },
  { name: 'namespaces', columns: 'namespace', key: ['namespace'] },
  { name: 'device_keys', columns: 'kid, jwk, name, enrolled_at, revoked_at', key: ['kid'] },
  { name: 'passkeys', columns: 'id, jwk, rp_id, name, added_at, removed_at', key: ['id'] },
  {
    name: 'session_keys',
    columns: 'kid, jwk, name, passkey, enrolled_at, expires_at, revoked_at',
    key: ['kid'],
  },
  { name: 'logins', columns: 'id, issuer, subject, name, bound_at', key: ['id'] },
  // Leaves out the whole address and the browser's keys, because anybody who has them could send there.
  {
    name: 'subscriptions',
    columns: 'id, kind, name, origin, created_at, sent_at, failing_since, quiet_hours, digest_minutes',
    key: ['id'],
  },
  {
    name: 'resource_servers',
    columns:
      'client_id, name, resource_uri, status, auth, registered_at, decided_at, last_pat_issued, publishes',
    key: ['client_id'],
  },
  { name: 'banned_origins', columns: 'origin, banned_at', key: ['origin'] },
  {
    name: 'resources',
    columns: 'resource_id, client_id, name, type, resource_scopes, consequence, tools, source, org, approval',
    key: ['resource_id'],
  },
  {
    name: 'tiers',
    columns: 'tier_id, name, ask_me, rules, clearance, version, epoch, deleted_at',
    key: ['tier_id'],
  },
  { name: 'tier_resources', columns: 'resource_id, tier_id', key: ['resource_id'] },
  {
    name: 'terms_versions',
    columns: 'tier_id, version, name, purpose, scope, expires_in, prohibited, per_operation, published_at',
    key: ['tier_id', 'version'],
  },
  {
    name: 'allowances',
    columns: 'id, version, zone, among, until, hold_s, content, made_at',
    key: ['id'],
  },
  {
    name: 'connections',
    columns:
      'handle, status, generation, identity, label, first_party, first_seen, admitted_at, last_access, revocations, introduced_by, jkt, reach, admits, blocked_at',
    key: ['handle'],
  },
  { name: 'connection_operators', columns: 'handle, origin, since', key: ['handle', 'origin'] },
  {
    name: 'connection_tiers',
    columns: 'handle, tier_id, granted_at, approved_at, approved_generation',
    key: ['handle', 'tier_id'],
  },
  { name: 'operators', columns: 'origin, name, blocked_at, mine', key: ['origin'] },
  {
    name: 'memberships',
    columns: 'issuer, joined_at, agreed, view, read_at, administrators_may, clamped_fields',
    key: ['owner'],
  },
  { name: 'joint_accounts', columns: 'account, tally, mandate, mandate_s256, agreed_at', key: ['account'] },
  { name: 'ledger', columns: 'seq, ts, kind, family, handle, data, count', key: ['seq'] },
  {
    name: 'receipts',
    columns: 'seq, jti, family, handle, issued_at, receipt',
    key: ['seq'],
    from: `(SELECT p.owner, p.seq, r.jti, r.family, r.handle, r.issued_at, r.receipt
      FROM receipt_positions p ${RECEIPT_OF_POSITION}) p`,
  },
]

/**
 * A page of rows, in the order of the parts. `after` is the `next` of the previous page; undefined starts at
 * the beginning.
 * @returns undefined for an `after` that no page named.
 */
export async function readArchive(
  db: Db,
  owner: Owner,
  { after, limit }: KeyPage,
): Promise<{ lines: ArchiveLine[]; next: string | null } | undefined> {
  const from = after === undefined ? { at: 0, key: undefined } : cursorOf(after)
  if (from === undefined) return undefined
  if (after === undefined) await number(db, owner)
  return inIndexOrder(db, tx => readParts(tx, owner, from, limit))
}

async function readParts(
  tx: Tx,
  owner: Owner,
  from: { at: number; key: string[] | undefined },
  limit: number,
): Promise<{ lines: ArchiveLine[]; next: string | null }> {
  const lines: ArchiveLine[] = []
  let { key } = from
  let characters = 0
  for (const part of PARTS.slice(from.at)) {
    for (const read of await readPart(tx, owner, part, { key, limit: limit - lines.length })) {
      lines.push({ part: part.name, row: read.row })
      characters += JSON.stringify(read.row).length
      if (lines.length >= limit || characters >= PAGE_CHARACTERS)
        return { lines, next: encodeBase64url(JSON.stringify([part.name, read.key])) }
    }
    key = undefined
  }
  return { lines, next: null }
}

function cursorOf(text: string): { at: number; key: string[] } | undefined {
  try {
    const [name, key] = JSON.parse(decodeBase64url(text).toString('utf8')) as [unknown, unknown]
    const at = PARTS.findIndex(part => part.name === name)
    if (at < 0 || !Array.isArray(key) || key.length !== PARTS[at]!.key.length) return undefined
    if (!key.every((one): one is string => typeof one === 'string' && !one.includes('\0'))) return undefined
    const isNumbered = (column: string): boolean => column === 'seq' || column === 'version'
    if (PARTS[at]!.key.some((column, i) => isNumbered(column) && !/^\d{1,15}$/.test(key[i]!)))
      return undefined
    return { at, key }
  } catch {
    return undefined
  }
}

/** Rows of one part, as JSON that Postgres writes, so that text from agents stays as they wrote it. */
async function readPart(
  tx: Tx,
  owner: Owner,
  { name, columns, key, from = `${name} p` }: ArchivePart,
  page: { key: string[] | undefined; limit: number },
): Promise<{ row: Record<string, unknown>; key: string[] }[]> {
  const typed = (column: string): string => (column === 'seq' || column === 'version' ? '::bigint' : '')
  const keys = sql.raw(key.map(column => `p.${column}`).join(', '))
  const after = sql.join(key.map((column, i) => sql`${page.key?.[i] ?? ''}${sql.raw(typed(column))}`))
  const isNumbered = key.includes('seq') ? sql` AND p.seq IS NOT NULL` : sql``
  const beyond = page.key === undefined ? sql`` : sql` AND (${keys}) > (${after})`
  const { rows } = await sql<{ row: Record<string, unknown>; key: string[] }>`
    WITH only_owner AS (
      SELECT owner, created_at FROM owners WHERE owner = ${owner}
      UNION ALL SELECT owner, created_at FROM removals WHERE owner = ${owner})
    SELECT (SELECT row_to_json(told) FROM (SELECT ${sql.raw(columns.replaceAll(/\b(\w+)/g, 'p.$1'))}) told) AS row,
      ARRAY[${sql.raw(key.map(column => `p.${column}::text`).join(', '))}] AS key
    FROM ${sql.raw(from)} WHERE p.owner = ${owner}${isNumbered}${beyond}
    ORDER BY ${keys} LIMIT ${page.limit}`.execute(tx)
  return rows
}
