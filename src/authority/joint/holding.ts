/**
 * Holding an account jointly: what a mandate would commit her to, agreeing to exactly that, and ceasing to
 * hold. Contract: "Tally for a jointly held resource" (`/owner/joint*`).
 */
import { mixesJointAndOwn, jointServer } from '../../rules/joint/joint.ts'
import { holderOf, coversResource } from '../../rules/joint/mandate.ts'
import { mandateSummary } from '../../rules/joint/mandate-words.ts'
import { endWithin } from '../../storage/authority/joint/joint-ends.ts'
import {
  endJointAccount,
  isNameInUse,
  knownElsewhere,
  listJointAccounts,
  readJointAccount,
  writeJointAccount,
  writeJointResources,
  type JointAccount,
} from '../../storage/authority/joint/joint-accounts.ts'
import { takeAllBack, takeBack } from '../../storage/authority/joint/joint-withdrawals.ts'
import type { Tx } from '../../storage/authority/database.ts'
import { appendEvent, appendEvents } from '../../storage/authority/ledger/events.ts'
import { appendLedger, appendLedgerAll } from '../../storage/authority/ledger/ledger.ts'
import { listGovernable, type TierRow } from '../../storage/authority/policies/tiers.ts'
import { endsLeases } from '../../storage/core/after-commit.ts'
import type { Owner } from '../../wire/identifiers.ts'
import { totalWeight, type Mandate } from '../../wire/joint/mandate.ts'
import { Refusal, refuse, unavailable } from '../../wire/refusal.ts'
import { tiersOf } from '../organization/membership-effect.ts'
import type { OwnerApi } from '../owner/api.ts'
import type { OwnerCredential } from '../owner/credentials/credential.ts'
import { changeAs } from '../owner/credentials/guard.ts'
import { TallyFault, TallyOutage, type ServedMandate } from './tallies.ts'

/** Which account, at which tally. */
export interface JointAccountName {
  tally: string
  account: Owner
}

/** What agreeing would commit her to. */
export interface MandatePreview {
  mandate: Mandate & { total_weight: number }
  mandate_s256: string
  summary: string[]
  /** Her tiers over what it covers. */
  tiers: TierRow[]
}

/** What a tally serves now, and what that would mean for her. This changes nothing on either side. */
export async function preview(api: OwnerApi, owner: Owner, of: JointAccountName): Promise<MandatePreview> {
  return foreseen(api, owner, await readMandate(api, owner, of))
}

async function foreseen(
  { database }: OwnerApi,
  owner: Owner,
  served: ServedMandate,
): Promise<MandatePreview> {
  const { mandate_s256, ...mandate } = served.mandate
  const tiers = await tiersOf(database.of(owner), owner)
  return {
    mandate: { ...mandate, total_weight: totalWeight(mandate) },
    mandate_s256,
    summary: mandateSummary(mandate),
    tiers: tiers.filter(({ resources }) => resources.some(id => coversResource(mandate, id))),
  }
}

/**
 * A lawful mandate of a listed tally by which she is a holder. Refuses 403 if she is not a holder or the
 * tally is not listed; 502, with the reason, if the mandate cannot be agreed to; 503 if the tally cannot be
 * asked.
 */
async function readMandate(
  { tallies, issuer }: OwnerApi,
  owner: Owner,
  { tally, account }: JointAccountName,
): Promise<ServedMandate> {
  if (!tallies.issuers.includes(tally))
    refuse('request_denied', 'Ask the operator of your authorization server: that tally is not listed.')
  const served = await tallies.mandate(tally, account, 'fresh').catch(asRefused)
  if (holderOf(served.mandate, { owner, issuer }) === undefined)
    refuse(
      'request_denied',
      'Ask the people who run the account: its mandate does not name you at this server.',
      {
        extra: { reason: 'not_a_holder' },
      },
    )
  return served
}

/** If the tally cannot be asked, this is 503. If its answer is unusable, this is 502 with the reason. */
export function asRefused(cause: unknown): never {
  if (cause instanceof TallyOutage)
    throw unavailable(`Try again shortly: of the tally, ${cause.message}.`, 5, cause)
  if (!(cause instanceof TallyFault)) throw cause
  const detail = `Ask the operator of the tally to correct it: ${cause.message}.`
  throw new Refusal('temporarily_unavailable', detail, { status: 502, cause })
}

/**
 * Makes her a holder under exactly the mandate that she agreed to. Agreeing to the same again changes
 * nothing. Refuses 409 with the preview if the tally serves another mandate by now.
 */
export async function agree(
  api: OwnerApi,
  credential: OwnerCredential,
  agreed: JointAccountName & { mandate_s256: string },
): Promise<MandatePreview> {
  const { owner, actor } = credential
  const served = await readMandate(api, owner, agreed)
  const what = await foreseen(api, owner, served)
  const { mandate, registered } = served
  const { account, tally, mandate_s256 } = mandate
  if (mandate_s256 !== agreed.mandate_s256) return refuseMoved(what)
  await changeAs(api, credential, async tx => {
    const known = await readJointAccount(tx, owner, account)
    if (known !== undefined && known.tally !== tally)
      refuse('conflict', `You hold ${account} by ${known.tally} already: leave there first.`)
    if (known?.mandate_s256 === mandate_s256 && known.changed_s256 === null) return
    if (await isNameInUse(tx, account))
      refuse('conflict', `${account} is the name of an owner here, or of a namespace: nobody else holds it.`)
    await refuseKnownElsewhere(tx, owner, served)
    await refuseMixed(tx, owner, what.tiers, served)
    // What she allowed under another mandate is not allowed under this one.
    if (known !== undefined && known.mandate_s256 !== mandate_s256) await takeBack(tx, owner, { account })
    await writeJointAccount(tx, owner, mandate)
    await writeJointResources(tx, { owner, account }, registered, 'as served')
    const data = { ...shown(mandate), tally, mandate_s256, was: known?.mandate_s256 ?? null }
    await appendLedger(tx, owner, { kind: 'joint_agreed', data: { ...data, by: 'owner', actor } })
    await appendEvent(tx, owner, 'joint', {
      what: 'agreed',
      account,
      tally,
      mandate_s256,
      by: 'owner',
      actor,
    })
  })
  return what
}

/** This agrees to nothing: it shows her what the mandate would be now. */
function refuseMoved(what: MandatePreview): never {
  const { mandate, mandate_s256, summary } = what
  return refuse('conflict', 'Read the mandate again: it is another one by now.', {
    extra: { reason: 'mandate_moved', preview: { mandate, mandate_s256, summary } },
  })
}

async function refuseKnownElsewhere(
  tx: Tx,
  owner: Owner,
  { mandate, registered }: ServedMandate,
): Promise<void> {
  const ids = registered.map(({ _id }) => _id)
  const known = await knownElsewhere(tx, owner, mandate.account, ids)
  if (known !== undefined)
    refuse('conflict', `${known} is registered by another source of yours: nothing of it is replaced.`)
}

/** She kept this tier from before, or made it over the resources that were there then. */
async function refuseMixed(
  tx: Tx,
  owner: Owner,
  tiers: readonly TierRow[],
  { mandate, registered }: ServedMandate,
): Promise<void> {
  const joint = new Set(registered.map(({ _id }) => _id))
  for (const { tier_id, resources } of tiers) {
    const known = await listGovernable(tx, owner, resources)
    const servers = resources
      .filter(id => joint.has(id))
      .map(() => jointServer(mandate.account))
      .concat(known.filter(({ resource_id }) => !joint.has(resource_id)).map(({ client_id }) => client_id))
    if (mixesJointAndOwn(servers))
      refuse(
        'conflict',
        `Your tier ${tier_id} also governs resources that are yours alone: take one kind out first.`,
      )
  }
}

/** The description of a mandate beside its digest. */
export function shown({ account, holders, rule, resources }: Mandate): {
  account: Owner
  rule: Mandate['rule'] & { total_weight: number }
  holders: Mandate['holders']
  resources: string[]
} {
  return { account, rule: { ...rule, total_weight: totalWeight({ holders }) }, holders, resources }
}

/** The accounts that she holds jointly. */
export function jointAccounts({ database }: OwnerApi, owner: Owner): Promise<JointAccount[]> {
  return listJointAccounts(database.of(owner), owner)
}

/**
 * Ends her holding; her terms stay. Nothing is quoted or allowed in her name any more, waiting items end, her
 * allowances are withdrawn, and agents that she let in for this account alone are strangers again. Refuses
 * 404 if she does not hold the account.
 */
export async function leave(api: OwnerApi, credential: OwnerCredential, account: Owner): Promise<void> {
  const { owner, actor } = credential
  await changeAs(api, credential, async tx => {
    // Also if she holds it no more: the first answer may have been lost.
    endsLeases(tx, owner)
    const known = await readJointAccount(tx, owner, account)
    if (known === undefined) refuse('not_found', 'You hold no account of that name with others.')
    await endJointAccount(tx, owner, account)
    await takeAllBack(tx, owner, { tally: known.tally, account })
    const by = { by: 'owner' as const, actor }
    const { handles, families } = await endWithin(tx, owner, account, by)
    const { tally, mandate_s256 } = known
    await appendLedgerAll(tx, owner, [
      { kind: 'joint_left', data: { account, tally, mandate_s256, ...by } },
      ...handles.map(handle => ({ kind: 'revoked' as const, handle, data: { ...by, account } })),
      ...families.map(family => ({ kind: 'denied' as const, family, data: { by: 'leaving', actor } })),
    ])
    await appendEvents(tx, owner, [
      { event: 'joint', data: { what: 'left', account, tally, ...by } },
      ...handles.map(handle => ({ event: 'connection_revoked' as const, data: { handle, ...by } })),
      ...families.map(family => ({
        event: 'decided' as const,
        data: { family, decision: 'denied', by: 'leaving', actor },
      })),
    ])
  })
}
