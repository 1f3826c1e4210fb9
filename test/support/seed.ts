/**
 * Rows for storage tests: an owner with a resource server, a resource, a tier, and everything else that a
 * test needs.
 */
import { randomBytes } from 'node:crypto'
import { sql } from 'kysely'
import { inTransaction } from '../../src/storage/core/database.ts'
import type { Db } from '../../src/storage/authority/database.ts'
import { admitConnection } from '../../src/storage/authority/connections/connections.ts'
import { insertDeviceKey } from '../../src/storage/authority/credentials/device-keys.ts'
import {
  connectionFacts,
  keepFacts,
  type BasisFacts,
  type FactsOf,
  type GrantBasis,
} from '../../src/rules/grant.ts'
import type { ShownItem } from '../../src/storage/authority/negotiations/shown-item.ts'
import { factsColumn } from '../../src/storage/authority/grants/facts.sql.ts'
import { recordGrant, type NewGrant } from '../../src/storage/authority/grants/issue.ts'
import { insertOwner, lockQueue } from '../../src/storage/authority/owners/owners.ts'
import { insertResource, insertResourceServer } from '../../src/storage/authority/registry/resources.ts'
import { insertTier } from '../../src/storage/authority/policies/tiers.ts'
import { holdFamily, openFamily } from '../../src/storage/authority/negotiations/tickets.ts'
import { sha256 } from '../../src/wire/encoding.ts'
import {
  asClientId,
  type ClientId,
  type Family,
  type Handle,
  type Owner,
} from '../../src/wire/identifiers.ts'
import type { TermsTemplate } from '../../src/wire/negotiation/terms.ts'
import type { RptClaims } from '../../src/wire/negotiation/tokens.ts'
import {
  generatePrivateJwk,
  importPrivateJwk,
  publicJwk,
  type PrivateKey,
} from '../../src/wire/signatures/keys.ts'

export const CLIENT_ID = asClientId('demo-tools')
export const CLIENT_SECRET = 'a secret of sixteen'
export const TIER = 'reading'
/** Who decides, if it is the owner. */
export const ACTOR = { kind: 'owner', credential: 'device_key', kid: 'laptop' } as const

export const bytes = () => randomBytes(32)
/** Names nothing yet, and so may be the name of anything. */
export const name = (prefix: string) =>
  `${prefix}${randomBytes(6).toString('hex')}` as Owner & Handle & Family & ClientId

const NOTES = {
  name: 'Notes',
  type: null,
  resource_scopes: ['read', 'write'],
  consequence: 'reversible' as const,
  source: 'provisioned' as const,
}

/** A new owner with one governed resource `<owner>/notes`. */
export async function seedOwner(db: Db, options: { ask_me?: boolean } = {}): Promise<Owner> {
  const owner: Owner = name('owner-')
  await inTransaction(db, async tx => {
    await insertOwner(tx, { owner, tag: name('t') })
    await insertResourceServer(tx, {
      owner,
      client_id: CLIENT_ID,
      name: 'Demo tools',
      resource_uri: resourceUri(owner),
      status: 'active',
      auth: 'secret',
      secret_sha256: sha256(CLIENT_SECRET),
    })
    await insertResource(tx, { ...NOTES, owner, resource_id: resourceId(owner), client_id: CLIENT_ID })
    await insertTier(tx, tierOf(owner, options.ask_me ?? false))
  })
  return owner
}

/** An owner as `seedOwner` makes her, with a device key that is called laptop. */
export async function seedOwnerWithKey(
  db: Db,
  options: { ask_me?: boolean } = {},
): Promise<{ owner: Owner; key: PrivateKey }> {
  const owner = await seedOwner(db, options)
  const key = importPrivateJwk(generatePrivateJwk())
  const row = { owner, kid: key.thumbprint, jwk: publicJwk(key), name: 'laptop' }
  await inTransaction(db, tx => insertDeviceKey(tx, row))
  return { owner, key }
}

export const resourceId = (owner: Owner) => `${owner}/notes`
export const resourceUri = (owner: Owner) => `https://tools.example/mcp/${owner}`

export function tierOf(owner: Owner, ask_me: boolean) {
  return {
    owner,
    tier_id: TIER,
    name: 'Reading',
    ask_me,
    rules: [],
    clearance: {},
    resources: [resourceId(owner)],
    terms: { purpose: 'assist', scope: ['read'], expires_in: 600, prohibited: [], per_operation: ask_me },
  }
}

/** An active connection; answers its generation. */
export function seedConnection(
  db: Db,
  owner: Owner,
  handle: Handle,
  more: { operator?: string; introduced_by?: Handle; admits?: 'all' | 'tier' } = {},
): Promise<number> {
  return inTransaction(db, async tx => {
    await lockQueue(tx, owner)
    return admitConnection(tx, {
      owner,
      handle,
      identity: 'pseudonymous',
      label: null,
      operator: more.operator ?? null,
      introduced_by: more.introduced_by ?? null,
      admits: more.admits,
    })
  })
}

/** What a grant of what is seeded must still equal. */
const factsOf = (owner: Owner): BasisFacts => ({
  aud: resourceUri(owner),
  tier_epoch: 1,
  tier_version: 1,
  server_generation: 1,
})

export function grantRow(owner: Owner, handle: Handle, generation: number, rpt: Buffer): NewGrant {
  return {
    owner,
    rptSha256: rpt,
    jti: name('rpt_'),
    family: name('fam_'),
    handle,
    generation,
    client_id: CLIENT_ID,
    resource_id: resourceId(owner),
    tier_id: TIER,
    ...factsOf(owner),
    resource_scopes: ['read'],
    consequence: 'reversible',
    declared: { consequence: 'reversible', tools: null },
    operator: null,
    single_use: true,
    claims: claimsOf(owner, handle),
    receipt: 'receipt',
    expiresAt: Math.floor(Date.now() / 1000) + 600,
  }
}

const CNF = { kty: 'OKP', crv: 'Ed25519', x: '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo' } as const

function claimsOf(owner: Owner, handle: Handle): Omit<RptClaims, 'joint'> {
  const [family, exp] = [name('fam_'), Math.floor(Date.now() / 1000) + 600]
  return {
    iss: 'https://as.example',
    sub: handle,
    client_id: handle,
    aud: resourceUri(owner),
    jti: name('rpt_'),
    iat: exp - 600,
    exp,
    cnf: { jwk: CNF },
    permissions: [{ resource_id: resourceId(owner), resource_scopes: ['read'], exp }],
    contract: 's256:agreement',
    owner,
    family,
  }
}

/** An offer of the seeded tier's terms. */
export function templateOf(owner: Owner, family: Family): TermsTemplate {
  return {
    template_id: `${owner}/${TIER}/v1`,
    terms_uri: `https://as.example/terms/${owner}/${TIER}/v1`,
    proffered_by: 'https://as.example',
    purpose: 'assist',
    scope: ['read'],
    expires_in: 600,
    prohibited: [],
    resource_id: resourceId(owner),
    family,
    nonce: 'nonce',
  }
}

/** What the grant of a request that waits would be made of. */
export function basisOf(owner: Owner, family: Family, handle: Handle): GrantBasis {
  const { template_id, terms_uri } = templateOf(owner, family)
  return {
    owner,
    family,
    handle,
    client_id: CLIENT_ID,
    resource_id: resourceId(owner),
    scopes: ['read'],
    expires_in: 600,
    template_id,
    terms_uri,
    consequence: 'reversible',
    single_use: false,
    operation: null,
    agreement_jws: 'agreement',
    agreement: 's256:agreement',
    echo_absent: [],
    cnf: CNF,
    jkt: 'of-another-key',
    tier_id: TIER,
    ...factsOf(owner),
    resource_scopes: ['read'],
    operator: null,
    facts: {
      assurance: { binding: 1, provenance: 0, accountability: 0 },
      request: {
        expiresInSeconds: 600,
        reasonAbsent: true,
        missionAbsent: true,
        consequence: 'reversible',
      },
    },
  }
}

/** A resource of a server that is there, in a tier of its own; answers what a grant of it is of. */
export async function govern(
  db: Db,
  owner: Owner,
  { client_id, name }: { client_id: ClientId; name: string },
) {
  const resource_id = `${owner}/${name}`
  await inTransaction(db, async tx => {
    await insertResource(tx, { ...NOTES, owner, resource_id, client_id })
    await insertTier(tx, { ...tierOf(owner, false), tier_id: name, resources: [resource_id] })
  })
  return governedOf(db, owner, resource_id)
}

/** A live single-use grant of a resource that a tier of this owner holds; answers its look-up key. */
export async function seedGrant(db: Db, owner: Owner, handle: Handle, generation: number): Promise<Buffer> {
  const rpt = bytes()
  const grant = { ...grantRow(owner, handle, generation, rpt), ...(await governedOf(db, owner)) }
  if (!(await recordGrant(db, grant, []))) throw new Error('the seeded grant rests on nothing')
  return rpt
}

/** What a grant of that resource, or of the owner's first governed one, is of as it stands. */
export async function governedOf(db: Db, owner: Owner, named?: string) {
  const { rows } = await sql<{
    client_id: ClientId
    resource_id: string
    tier_id: string
    resource_scopes: string[]
    consequence: string | null
    tools: Record<string, string | null> | null
    server_facts: FactsOf<'server'>
    resource_facts: FactsOf<'resource'> & object
    tier_facts: FactsOf<'tier'>
  }>`
    SELECT rs.client_id, r.resource_id, t.tier_id, r.resource_scopes, r.consequence, r.tools,
      ${sql.raw(factsColumn('server', 'rs'))}, ${sql.raw(factsColumn('resource', 'r'))}, ${sql.raw(factsColumn('tier', 't'))}
    FROM tier_resources tr
    JOIN tiers t ON t.owner = tr.owner AND t.tier_id = tr.tier_id AND t.deleted_at IS NULL
    JOIN resources r ON r.owner = tr.owner AND r.resource_id = tr.resource_id
    JOIN resource_servers rs ON rs.owner = r.owner AND rs.client_id = r.client_id AND rs.status = 'active'
    WHERE tr.owner = ${owner} AND r.resource_id = coalesce(${named ?? null}, r.resource_id)
    ORDER BY r.resource_id LIMIT 1`.execute(db)
  const { tools, server_facts: server, resource_facts: resource, tier_facts: tier, ...governed } = rows[0]!
  const facts = keepFacts({ connection: connectionFacts(undefined), server, resource, tier })
  return { ...governed, ...facts, declared: { consequence: governed.consequence, tools }, operator: null }
}

/** A negotiation that was offered terms; answers the hash of its ticket (null: just spent). */
export async function seedFamily(db: Db, owner: Owner, ticketHash: Buffer | null): Promise<Family> {
  const family = name('fam_')
  await openFamily(db, {
    owner,
    family,
    state: 'need_info',
    client_id: CLIENT_ID,
    resource_id: resourceId(owner),
    resource_scopes: ['read'],
    tier_id: TIER,
    template: templateOf(owner, family),
    sealedExpiresAt: Math.floor(Date.now() / 1000) + 300,
    ticketHash,
    ticketSeconds: 300,
    negotiationSeconds: 3600,
  })
  return family
}

/** What the owner is shown of a waiting request, besides the columns of its row. */
export function waitingItem(owner: Owner): ShownItem {
  return {
    tier: TIER,
    tier_name: 'Reading',
    resource_id: resourceId(owner),
    purpose: 'assist',
    operation: null,
    reason: null,
    mission: null,
    prohibited: [],
    enforced: { scope: ['read'], expires_in: 600, single_use: false, operation_bound: false },
    expires_in: 600,
    identity: {
      kind: 'pseudonymous',
      client_id: null,
      signature_agent: null,
      operator: null,
      operator_name: null,
      introduced_by: null,
    },
    assurance: { binding: 1, provenance: 0, accountability: 0 },
    assurance_notes: [],
    because: ['baseline:auto'],
    organization: null,
  }
}

/** A request that waits for the owner. */
export async function seedWaiting(
  db: Db,
  owner: Owner,
  handle: Handle,
  more: { operator?: string; kind?: 'connection' | 'operation' } = {},
): Promise<{ family: Family; ticketHash: Buffer }> {
  const family = await seedFamily(db, owner, null)
  const ticketHash = bytes()
  await inTransaction(db, async tx => {
    await lockQueue(tx, owner)
    await holdFamily(tx, {
      owner,
      family,
      kind: more.kind ?? 'connection',
      handle,
      operator: more.operator ?? null,
      attested: false,
      paramsKey: family,
      held: basisOf(owner, family, handle),
      item: waitingItem(owner),
      ticketHash,
      awaitingSeconds: 600,
    })
  })
  return { family, ticketHash }
}

/** Runs `rounds` rounds, a few at once, so that a hundred rounds of many callers end in seconds. */
export async function inRounds(
  rounds: number,
  atOnce: number,
  round: (n: number) => Promise<void>,
): Promise<void> {
  let next = 0
  const worker = async () => {
    while (next < rounds) await round(next++)
  }
  await Promise.all(Array.from({ length: atOnce }, worker))
}

export const callers = <T>(count: number, call: (n: number) => Promise<T>): Promise<T[]> =>
  Promise.all(Array.from({ length: count }, (_, n) => call(n)))

/** As if the minutes in which refusals were counted had passed: the next reader finds them told. */
export async function closeMinutes(db: Db): Promise<void> {
  await sql`UPDATE refusal_counts SET minute = minute - interval '1 hour'`.execute(db)
}
