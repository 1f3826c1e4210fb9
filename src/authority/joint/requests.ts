/**
 * Checks a question: a listed tally signed it for this server, just now, about an account that she holds by
 * that tally and a resource of that account. Contract: "Tally for a jointly held resource" (`/joint/quote`,
 * `/joint/verdict`).
 */
import { jointServer } from '../../rules/joint/joint.ts'
import type { Db } from '../../storage/authority/database.ts'
import { appendEvent } from '../../storage/authority/ledger/events.ts'
import {
  noteChangedMandate,
  readJointAccount,
  writeJointResources,
  type JointAccount,
} from '../../storage/authority/joint/joint-accounts.ts'
import { takeBack } from '../../storage/authority/joint/joint-withdrawals.ts'
import { appendLedger } from '../../storage/authority/ledger/ledger.ts'
import { lockQueue, readOwner } from '../../storage/authority/owners/owners.ts'
import { listGovernable } from '../../storage/authority/policies/tiers.ts'
import { inTransaction } from '../../storage/core/database.ts'
import { parseJws, type Verified } from '../../wire/signatures/jws.ts'
import type { Owner } from '../../wire/identifiers.ts'
import { ALIAS, aliasIn } from '../../wire/names.ts'
import { Refusal, refuse, refusingAs } from '../../wire/refusal.ts'
import {
  tallyRequestIssuer,
  verifyTallyRequest,
  type QuoteRequest,
  type VerdictRequest,
} from '../../wire/joint/verdict.ts'
import type { RequestContext } from '../context.ts'
import { TallyFault, TallyOutage, type ServedMandate } from './tallies.ts'

/**
 * A request of a listed tally for this server, now. Refuses 400 if it is no question, 401 if no listed tally
 * signed it, 404 if the owner is not served here, 503 if the keys of the tally cannot be fetched.
 */
export async function verifiedRequest(
  { issuer: audience, aliases, tallies, database, now }: RequestContext,
  jwt: string,
): Promise<Verified<QuoteRequest | VerdictRequest>> {
  const typAlias = aliasIn(aliases, ALIAS.tallyRequestTyp)
  const issuer = tallyRequestIssuer(jwt, typAlias)
  if (!tallies.issuers.includes(issuer))
    refuse('invalid_token', 'Ask the operator of this server to list your tally.')
  const kid = parseJws(jwt).header['kid']
  const keys = await tallies.keys(issuer, typeof kid === 'string' ? kid : undefined).catch(asOutage)
  const request = refusingAs('invalid_token', () =>
    verifyTallyRequest(jwt, keys, { issuer, audience, now: now(), typAlias }),
  )
  if ((await readOwner(database.ofNobody, request.owner)) === undefined)
    refuse('not_found', 'This server has no owner of that name.')
  return request
}

/** An account that she holds by the tally that asks; `isUnchanged`: its mandate is the one she agreed to. */
export interface HolderAccount {
  known: JointAccount
  isUnchanged: boolean
}

/**
 * What she agreed to for the account in question; undefined if she holds no account of that name. Refuses 401
 * if another tally asks than hers, 403 if the resource does not belong to the account, 503 if the mandate
 * cannot be fetched.
 */
export async function holderAccount(
  { tallies, database }: RequestContext,
  { iss, owner, account, resource_id }: QuoteRequest,
): Promise<HolderAccount | undefined> {
  const db = database.of(owner)
  const known = await readJointAccount(db, owner, account)
  if (known === undefined) return undefined
  if (known.tally !== iss) refuse('invalid_token', 'She holds that account by another tally.')
  let served = await tallies.mandate(iss, account).catch(asOutage)
  // It may be older than her record, which another replica wrote, so nothing is concluded from that.
  if (changeOf(known, served) !== known.changed_s256)
    served = await tallies.mandate(iss, account, 'fresh').catch(asOutage)
  const isUnchanged = await takeNote(db, known, served)
  const [resource] = await listGovernable(db, owner, [resource_id])
  if (resource?.client_id !== jointServer(account) || resource.resource_scopes.length === 0)
    refuse('request_denied', 'Ask about a resource of the account.')
  return { known, isUnchanged }
}

function asOutage(cause: unknown): never {
  if (!(cause instanceof TallyOutage || cause instanceof TallyFault)) throw cause
  throw new Refusal('temporarily_unavailable', `Try again shortly: of the tally, ${cause.message}.`, {
    cause,
  })
}

/**
 * The owners whose registry has the served mandate. The key is the mandate object itself, which stays the
 * same for as long as it is cached.
 */
const NOTED = new WeakMap<ServedMandate, Set<Owner>>()

/** The digest of the served mandate, if it is not the one that she agreed to. */
function changeOf({ mandate_s256 }: JointAccount, { mandate }: ServedMandate): string | null {
  return mandate.mandate_s256 === mandate_s256 ? null : mandate.mandate_s256
}

/**
 * Notes what a tally serves for an account that she holds: the registered resources of the agreed mandate
 * enter her registry now. If it is another mandate, she is notified, once an hour at most.
 * @returns whether it is the one she agreed to.
 */
async function takeNote(db: Db, known: JointAccount, served: ServedMandate): Promise<boolean> {
  const { owner, account, mandate_s256: agreed } = known
  const changed_s256 = changeOf(known, served)
  const noted = NOTED.get(served) ?? new Set()
  if (known.changed_s256 === changed_s256 && noted.has(owner)) return changed_s256 === null
  await inTransaction(db, async tx => {
    await lockQueue(tx, owner)
    const { isFirst, isNews } = await noteChangedMandate(tx, known, changed_s256)
    // She may have left meanwhile, or agreed to another.
    if ((await readJointAccount(tx, owner, account))?.mandate_s256 !== agreed) return
    if (changed_s256 === null)
      return writeJointResources(tx, { owner, account }, served.registered, 'never lower')
    if (isFirst) await takeBack(tx, owner, { account })
    if (!isNews) return
    const data = { account, tally: known.tally, mandate_s256: agreed, changed_s256 }
    await appendLedger(tx, owner, { kind: 'joint_changed', data })
    await appendEvent(tx, owner, 'joint', { what: 'mandate_changed', ...data })
  })
  NOTED.set(served, noted.add(owner))
  return changed_s256 === null
}
