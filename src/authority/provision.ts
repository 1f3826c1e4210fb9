/**
 * Applies the provisioning file, in one transaction per owner. Each item is made once, ever: what the owner
 * has since changed or deleted is never made again. What is the operator's to say of an item is taken over at
 * every start: secret or keys, resource_uri and names, and which server serves a resource. Contract: "Policy
 * vocabulary and tiers", "Authentication".
 */
import type { ProvisionedOwner } from '../config.ts'
import { inTransaction, waitLongerForRows } from '../storage/core/database.ts'
import type { CellView } from './cells/cells.ts'
import { newTag } from './administration/owner-accounts.ts'
import { warmReachWith, applyMembership, underCeiling } from './organization/membership-effect.ts'
import type { Db, Tx } from '../storage/authority/database.ts'
import { insertLogin, loginId, loginKey, ownerOfLogin } from '../storage/authority/credentials/logins.ts'
import { insertDeviceKey, readDeviceKey } from '../storage/authority/credentials/device-keys.ts'
import {
  claimProvisioned,
  insertNamespace,
  insertOwner,
  listUnprovisioned,
  lockQueue,
  readOwner,
} from '../storage/authority/owners/owners.ts'
import { wasRemoved } from '../storage/authority/owners/owner-lives.ts'
import { isElsewhere } from '../storage/authority/owners/moves.ts'
import { insertResource, insertResourceServer } from '../storage/authority/registry/resources.ts'
import {
  keysColumn,
  listOutdated,
  takeResourceValues,
  takeServerValues,
  type ResourceValues,
  type ServerValues,
} from '../storage/authority/policies/operator-values.ts'
import { insertTier, tierOfResource } from '../storage/authority/policies/tiers.ts'
import { unaskedAgents } from './unasked-agents.ts'
import { s256 } from '../wire/encoding.ts'
import { publicJwk } from '../wire/signatures/keys.ts'
import { asClientId, asOwner, type Owner } from '../wire/identifiers.ts'

/** The result of one item of the file, for the log. `skipped` items are never tried again. */
export interface Provisioning {
  owner: Owner
  kind: 'owner' | 'namespace' | 'device_key' | 'login' | 'resource_server' | 'resource' | 'tier'
  item: string
  outcome: 'made' | 'skipped' | 'changed'
  /**
   * Why it was skipped, which members changed, with both values of those that are no secrets, or who may use
   * at once what was made.
   */
  because?: string
}

/** One line for each item; one that was skipped, or that agents may use without asking, is a warning. */
export function logProvisioned(
  log: { info: (fields: object, words: string) => void; warn: (fields: object, words: string) => void },
  done: readonly Provisioning[],
): void {
  for (const one of done) {
    const warns = one.outcome !== 'changed' && one.because !== undefined
    log[warns ? 'warn' : 'info'](one, `provisioning: ${one.outcome}`)
  }
}

/** How long to wait for another replica that starts too and has a large file to apply. */
const TURN_MS = 10_000

/**
 * How many entries of the file are looked up at once, and to how many owners new items are applied at the
 * same time.
 */
const ENTRIES_PER_LOOK = 1_000
const OWNERS_AT_ONCE = 8

/**
 * Applies what is new in the file; safe when many replicas start at once. Owners whose entries were applied
 * before, and whose records have the operator's values of the file, are found together and left alone, so
 * that the cost of a start depends on what is new in the file, not on its length. @param cell claims the
 * names by which an owner is found, if there are several cells. @returns what was made or skipped now,
 * without what was applied before. @throws Error if a namespace, a device key or a login belongs to another
 * owner already, because each names one owner.
 */
export async function provision(
  db: Db,
  owners: readonly ProvisionedOwner[],
  cell?: Pick<CellView, 'claim'>,
): Promise<Provisioning[]> {
  const done: Provisioning[][] = []
  for (let at = 0; at < owners.length; at += ENTRIES_PER_LOOK) {
    const entries = owners.slice(at, at + ENTRIES_PER_LOOK)
    const fresh = await freshAmong(db, entries)
    const first = done.length
    const next = fresh.entries()
    let failed = false
    const lane = async (): Promise<void> => {
      for (const [place, entry] of next) {
        if (failed) return
        try {
          if (cell !== undefined) await claimAll(cell, entry)
          await consider(db, entry)
          done[first + place] = await inTransaction(db, tx => provisionOwner(tx, entry))
        } catch (error) {
          failed = true
          throw error
        }
      }
    }
    const lanes = await Promise.allSettled(Array.from({ length: OWNERS_AT_ONCE }, lane))
    for (const { reason } of lanes.filter(one => one.status === 'rejected')) throw reason
  }
  return done.flat()
}

/** Each of them belongs to one owner in all cells. */
async function claimAll(cell: Pick<CellView, 'claim'>, entry: ProvisionedOwner): Promise<void> {
  const owner = asOwner(entry.owner)
  const claimed = [
    ...entry.namespaces.map(key => ({ kind: 'name', key, owner }) as const),
    ...entry.device_keys.map(({ key }) => ({ kind: 'device_key', key: key.thumbprint, owner }) as const),
    ...entry.logins.map(login => ({ kind: 'login', key: loginKey(login), owner }) as const),
  ]
  for (const one of claimed)
    if (!(await cell.claim(one)))
      throw new Error(
        `The ${one.kind.replace('_', ' ')} ${one.key} of ${owner} is another owner's in another cell.`,
      )
}

/** The entries of the file that may contain something new, in its order. */
export async function freshEntries(db: Db, owners: readonly ProvisionedOwner[]): Promise<ProvisionedOwner[]> {
  const fresh: ProvisionedOwner[] = []
  for (let at = 0; at < owners.length; at += ENTRIES_PER_LOOK)
    fresh.push(...(await freshAmong(db, owners.slice(at, at + ENTRIES_PER_LOOK))))
  return fresh
}

async function freshAmong(db: Db, entries: readonly ProvisionedOwner[]): Promise<ProvisionedOwner[]> {
  const unmarked = new Set(await listUnprovisioned(db, entries.map(markOf)))
  const outdated = await listOutdated(db, entries.flatMap(serversOf), entries.flatMap(resourcesOf))
  return entries.filter(({ owner }, place) => unmarked.has(place) || outdated.has(asOwner(owner)))
}

function serversOf({ owner, resource_servers }: ProvisionedOwner): ServerValues[] {
  return resource_servers.map(server => ({
    ...server,
    owner: asOwner(owner),
    client_id: asClientId(server.client_id),
  }))
}

function resourcesOf({ owner, resources }: ProvisionedOwner): ResourceValues[] {
  return resources.map(({ id, client_id, name }) => ({
    owner: asOwner(owner),
    resource_id: id,
    client_id: asClientId(client_id),
    name,
  }))
}

/**
 * The digest of an owner's entry. If it is marked, the whole entry was applied. It reveals no secret, because
 * of secrets the entry holds only hashes, and of keys the public halves.
 */
function markOf(declaration: ProvisionedOwner): { owner: Owner; kind: string; item: string } {
  // An entry without namespaces keeps the mark that it had before namespaces existed.
  const { namespaces, ...entry } = declaration
  const text = JSON.stringify(namespaces.length > 0 ? declaration : entry, (_name, value: unknown) =>
    value !== null && typeof value === 'object' && 'thumbprint' in value ? value.thumbprint : value,
  )
  return { owner: asOwner(declaration.owner), kind: 'entry', item: s256(text) }
}

const REMOVED = (owner: Owner): Provisioning => ({
  owner,
  kind: 'owner',
  item: owner,
  outcome: 'skipped',
  because: 'she was removed, and her name is never given again: take her out of the file',
})

const ELSEWHERE = (owner: Owner): Provisioning => ({
  owner,
  kind: 'owner',
  item: owner,
  outcome: 'skipped',
  because:
    'the cell that the directory names for her does not serve her: she is being moved, or one of the two was restored (docs/cells.md, "Restore a cell")',
})

/** Call this before the transaction of `provisionOwner`, which then holds its locks for less long. */
export function consider(db: Db, { owner, resources }: ProvisionedOwner): Promise<void> {
  return warmReachWith(
    db,
    asOwner(owner),
    resources.map(({ id }) => id),
  )
}

/** Applies what is new in one owner's entry, in the caller's transaction. */
export async function provisionOwner(tx: Tx, declaration: ProvisionedOwner): Promise<Provisioning[]> {
  const owner = asOwner(declaration.owner)
  const done: Provisioning[] = []
  await waitLongerForRows(tx, TURN_MS)
  if (await wasRemoved(tx, owner)) return [REMOVED(owner)]
  if (await isElsewhere(tx, owner)) return [ELSEWHERE(owner)]
  if (await insertOwner(tx, { owner, tag: newTag() }))
    done.push({ owner, kind: 'owner', item: owner, outcome: 'made' })
  // Replicas that start together take turns here, and edits by the owner wait.
  await lockQueue(tx, owner)
  // She may have been removed while this waited.
  if ((await readOwner(tx, owner)) === undefined) return [REMOVED(owner)]
  const once = async (
    kind: Provisioning['kind'],
    item: string,
    make: () => Promise<string | undefined>,
  ): Promise<void> => {
    if (!(await claimProvisioned(tx, owner, kind, item))) return
    const because = await make()
    done.push({
      owner,
      kind,
      item,
      ...(because === undefined ? { outcome: 'made' } : { outcome: 'skipped', because }),
    })
  }
  for (const name of declaration.namespaces)
    await once('namespace', name, () => giveNamespace(tx, owner, name))
  for (const enrolled of declaration.device_keys)
    await once('device_key', enrolled.key.thumbprint, () => enrolKey(tx, owner, enrolled))
  for (const login of declaration.logins)
    await once('login', loginId(login), () => bindLogin(tx, owner, login))
  for (const { client_id, client_keys, ...server } of declaration.resource_servers)
    await once('resource_server', client_id, async () => {
      const named = { owner, client_id: asClientId(client_id), status: 'active' as const }
      const auth = client_keys === undefined ? ('secret' as const) : ('signature' as const)
      const row = { ...named, ...server, auth, client_keys: keysColumn(client_keys) }
      return (await insertResourceServer(tx, row))
        ? undefined
        : 'a resource server of this client_id is known'
    })
  for (const { id, client_id, type, consequence, ...rest } of declaration.resources)
    await once('resource', id, async () => {
      const named = { owner, resource_id: id, client_id: asClientId(client_id) }
      const row = { ...named, type: type ?? null, consequence: consequence ?? null, ...rest }
      return (await insertResource(tx, { ...row, source: 'provisioned' }))
        ? undefined
        : 'a resource of this id is registered'
    })
  // Her organization may govern what is new.
  await applyMembership(tx, owner, { by: 'organization' })
  for (const tier of declaration.tiers) await once('tier', tier.id, () => makeTier(tx, owner, tier))
  await addUnasked(tx, owner, done)
  // Last, because this locks servers, and a new tier may lock her membership, which comes before them.
  done.push(...(await takeOperatorValues(tx, declaration)))
  const { kind, item } = markOf(declaration)
  await claimProvisioned(tx, owner, kind, item)
  return done
}

/** Says of each tier that was made which agents may use it without asking her. */
async function addUnasked(tx: Tx, owner: Owner, done: readonly Provisioning[]): Promise<void> {
  const made = done.filter(({ kind, outcome }) => kind === 'tier' && outcome === 'made')
  const unasked = await unaskedAgents(
    tx,
    owner,
    made.map(({ item }) => item),
  )
  for (const one of made) {
    const because = unasked.get(one.item)
    if (because !== undefined) one.because = because
  }
}

/** What the file says now of servers and resources that were made at an earlier start. */
async function takeOperatorValues(tx: Tx, declaration: ProvisionedOwner): Promise<Provisioning[]> {
  const done: Provisioning[] = []
  const took = (kind: Provisioning['kind'], item: string, members: readonly string[]): void => {
    if (members.length === 0) return
    const because = members.join(', ')
    done.push({ owner: asOwner(declaration.owner), kind, item, outcome: 'changed', because })
  }
  for (const server of serversOf(declaration))
    took('resource_server', server.client_id, await takeServerValues(tx, server))
  for (const one of resourcesOf(declaration))
    took('resource', one.resource_id, await takeResourceValues(tx, one))
  return done
}

async function giveNamespace(tx: Tx, owner: Owner, namespace: string): Promise<undefined> {
  const holder = await insertNamespace(tx, owner, namespace)
  if (holder === owner) return
  const whose = holder === asOwner(namespace) ? 'the name of an owner' : `a namespace of ${holder}`
  throw new Error(`The namespace ${namespace} of ${owner} is ${whose} already: list another for her.`)
}

async function enrolKey(
  tx: Tx,
  owner: Owner,
  { name, key }: ProvisionedOwner['device_keys'][number],
): Promise<string | undefined> {
  const kid = key.thumbprint
  if (await insertDeviceKey(tx, { owner, kid, jwk: publicJwk(key), name })) return undefined
  if ((await readDeviceKey(tx, kid))?.owner === owner) return 'she enrolled it herself'
  throw new Error(`The device key ${kid} of ${owner} is already enrolled: make one of her own.`)
}

async function bindLogin(
  tx: Tx,
  owner: Owner,
  login: ProvisionedOwner['logins'][number],
): Promise<string | undefined> {
  if ((await insertLogin(tx, { owner, ...login })) !== undefined) return undefined
  if ((await ownerOfLogin(tx, login)) === owner) return 'she bound it herself'
  throw new Error(
    `The login ${JSON.stringify(login.subject)} of ${owner} is bound already: name one of hers.`,
  )
}

/**
 * Adds the tier unless the owner has used its id or governs one of its resources herself. @returns why not.
 */
async function makeTier(
  tx: Tx,
  owner: Owner,
  tier: ProvisionedOwner['tiers'][number],
): Promise<string | undefined> {
  for (const resource_id of tier.resources) {
    const governing = await tierOfResource(tx, owner, resource_id)
    if (governing !== undefined) return `the tier ${governing.tier_id} governs ${resource_id}`
  }
  const { id: tier_id, ...rest } = tier
  const { tier: left } = await underCeiling(tx, { owner, tier_id, ...rest })
  const outcome = await insertTier(tx, left)
  return outcome === 'added' ? undefined : 'a tier of this id stands'
}
