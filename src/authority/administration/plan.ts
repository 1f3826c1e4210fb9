/**
 * The changes that the provisioning file would make, and the differences from the database that would stay:
 * an item is made once, ever, and then only what is the operator's to say of it is taken over. Contract:
 * "Policy vocabulary and tiers", "Authentication".
 */
import { isDeepStrictEqual } from 'node:util'
import type { ProvisionedOwner } from '../../config.ts'
import { inTransaction } from '../../storage/core/database.ts'
import type { Db } from '../../storage/authority/database.ts'
import { readDeclared, type DeclaredItem } from '../../storage/authority/policies/declared.ts'
import { loginId } from '../../storage/authority/credentials/logins.ts'
import { listUnprovisioned } from '../../storage/authority/owners/owners.ts'
import { asOwner, type Owner } from '../../wire/identifiers.ts'
import { consider, freshEntries, provisionOwner } from '../provision.ts'

/** One item of the file: `differs` is left as it is, because the owner may have changed it. */
export interface PlanLine {
  owner: Owner
  kind: string
  item: string
  plan: 'made' | 'changed' | 'skipped' | 'differs' | 'refused'
  /**
   * Why it is skipped or refused, which members change and how, which differ, or who may use at once what is
   * made.
   */
  because?: string
}

const OWNERS_AT_ONCE = 200

/**
 * What a start with this file would do, and which differences it would leave alone. New items are tried in
 * transactions that are rolled back, so this says what the result would be, and changes nothing.
 */
export async function planOf(db: Db, owners: readonly ProvisionedOwner[]): Promise<PlanLine[]> {
  const planned: PlanLine[] = []
  for (const entry of await freshEntries(db, owners)) planned.push(...(await tried(db, entry)))
  for await (const differing of differences(db, owners)) planned.push(...differing)
  return planned
}

class TrialRollback extends Error {
  readonly planned: PlanLine[]
  constructor(planned: PlanLine[]) {
    super('the trial is rolled back')
    this.planned = planned
  }
}

async function tried(db: Db, entry: ProvisionedOwner): Promise<PlanLine[]> {
  try {
    await consider(db, entry)
    return await inTransaction(db, async (tx): Promise<PlanLine[]> => {
      const done = await provisionOwner(tx, entry)
      throw new TrialRollback(done.map(({ outcome, ...rest }) => ({ ...rest, plan: outcome })))
    })
  } catch (error) {
    if (error instanceof TrialRollback) return error.planned
    // A file that may not be applied is a plain error, with a sentence; an outage is not judged here.
    if (!(error instanceof Error) || 'code' in error) throw error
    const { owner } = entry
    return [{ owner: asOwner(owner), kind: 'owner', item: owner, plan: 'refused', because: error.message }]
  }
}

/** Items that were applied once and have changed since, owner by owner. */
export async function* differences(db: Db, owners: readonly ProvisionedOwner[]): AsyncGenerator<PlanLine[]> {
  for (let at = 0; at < owners.length; at += OWNERS_AT_ONCE) {
    const entries = owners.slice(at, at + OWNERS_AT_ONCE)
    const items = entries.flatMap(itemsOf)
    const fresh = new Set(await listUnprovisioned(db, items))
    const stored = await readDeclared(
      db,
      entries.map(({ owner }) => asOwner(owner)),
    )
    yield items.flatMap((declared, place) => {
      if (fresh.has(place)) return []
      const because = differenceOf(declared, stored.get(keyOf(declared)))
      const { owner, kind, item } = declared
      return because === undefined ? [] : [{ owner, kind, item, plan: 'differs' as const, because }]
    })
  }
}

type Declared = Omit<DeclaredItem, 'stands' | 'follows'>

function keyOf({ owner, kind, item }: Pick<Declared, 'owner' | 'kind' | 'item'>): string {
  return JSON.stringify([owner, kind, item])
}

function itemsOf(declaration: ProvisionedOwner): Declared[] {
  const owner = asOwner(declaration.owner)
  return [
    ...declaration.device_keys.map(({ key }) => ({
      owner,
      kind: 'device_key',
      item: key.thumbprint,
      values: {},
    })),
    ...declaration.logins.map(login => ({ owner, kind: 'login', item: loginId(login), values: {} })),
    ...declaration.resource_servers.map(({ client_id, secret_sha256, client_keys, ...values }) => ({
      owner,
      kind: 'resource_server',
      item: client_id,
      values: { ...values, secret: secret_sha256?.toString('hex') ?? null, jwks: client_keys ?? null },
    })),
    ...declaration.resources.map(({ id, client_id, name, type, resource_scopes, consequence }) => ({
      owner,
      kind: 'resource',
      item: id,
      values: { client_id, name, type: type ?? null, resource_scopes, consequence: consequence ?? null },
    })),
    ...declaration.tiers.map(({ id, name, resources, ask_me, rules, clearance, terms }) => ({
      owner,
      kind: 'tier',
      item: id,
      values: { name, resources: resources.toSorted(), ask_me, rules, clearance, ...terms },
    })),
  ]
}

/** Members that a start takes over from the file, by the kind of the item. */
const OPERATOR_MEMBERS: ReadonlyMap<string, ReadonlySet<string>> = new Map([
  ['resource_server', new Set(['name', 'resource_uri', 'secret', 'jwks'])],
  ['resource', new Set(['client_id', 'name'])],
])

/** Names members without their values, because some are secrets. */
function differenceOf(declared: Declared, stored: DeclaredItem | undefined): string | undefined {
  if (stored?.stands !== true) return 'it was removed since'
  const differing = Object.keys(declared.values).filter(
    name =>
      !(stored.follows && OPERATOR_MEMBERS.get(declared.kind)?.has(name)) &&
      !isDeepStrictEqual(declared.values[name], stored.values[name]),
  )
  if (differing.length === 0) return undefined
  const hers = declared.kind === 'tier' ? '; a tier is hers to change (usher owner tier apply)' : ''
  return `${differing.join(', ')}: changed since, here or in the file${hers}`
}
