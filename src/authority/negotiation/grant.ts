/**
 * Makes a grant: RPT and receipt are signed first, then one transaction records them from the connection
 * row at the generation the decision was made under. Contract: "Grant answer (beat 4)", "RPT claims".
 */
import type { Db, Tx } from '../../storage/authority/database.ts'
import type { GrantBasis } from '../../storage/authority/grant-basis.ts'
import { recordGrant, type NewGrant } from '../../storage/authority/grant-issuance.ts'
import { appendLedgerAll } from '../../storage/authority/ledger.ts'
import { addOperator } from '../../storage/authority/operators.ts'
import { inTransaction } from '../../storage/core/database.ts'
import type { Signer } from '../../surface/issuer.ts'
import { grantContent, signGrant } from '../../surface/token/grant.ts'
import type { Decision } from '../../surface/token/negotiation.ts'
import type { GrantAnswer } from '../../wire/negotiation.ts'
import { admitIntroduced, introductionStands } from '../agents/introductions.ts'
import type { Authority } from '../context.ts'
import { newOperator, shownMission, type Weighed } from './presentation.ts'

/** The basis of a grant from a weighed agreement. */
export function basisOf(weighed: Weighed): GrantBasis {
  const { family, governed, agent, answer } = weighed
  const { server, tier } = governed
  return {
    ...grantContent({
      ...weighed,
      ...governed,
      handle: agent.handle,
      singleUse: answer.kind !== 'deny' && answer.singleUse,
    }),
    tier_id: tier.tier_id,
    tier_epoch: tier.epoch,
    tier_version: tier.version,
    server_generation: server.generation,
    resource_scopes: [...family.resource_scopes],
    operator: agent.operator ?? null,
    ...(weighed.organizationEpochs === undefined ? {} : { organization: weighed.organizationEpochs }),
    facts: { assurance: weighed.facts.assurance, request: weighed.facts.request },
  }
}

type GrantRow = Omit<NewGrant, 'generation'>

/** What the statement that records the grant is to find as it was. */
function restsOn(basis: GrantBasis): NewGrant['restsOn'] {
  return {
    tierVersion: basis.tier_version,
    serverGeneration: basis.server_generation,
    resourceScopes: basis.resource_scopes,
    consequence: basis.declared === undefined ? basis.consequence : basis.declared.consequence,
    tools: basis.declared?.tools,
    operator: basis.operator,
    organization: basis.organization,
  }
}

/** Signs a grant, which is to hang on a connection and a tier. */
export function signOnBasis(signer: Signer, basis: GrantBasis): { row: GrantRow; body: GrantAnswer } {
  const { row, body } = signGrant(signer, basis)
  const { tier_id, tier_epoch: tierEpoch } = basis
  return { row: { ...row, tier_id, tierEpoch, restsOn: restsOn(basis) }, body }
}

/**
 * Grants at once: the connection is known, or an introduction makes it, and the tier asks nothing.
 * 'facts-moved' where the connection (or the introducer's) was revoked or admitted anew since its standing
 * was read, the operator blocked, or the tier, its resource or the resource server changed; then no grant was
 * made.
 */
export async function grantNow(
  authority: Signer & Pick<Authority, 'database'>,
  weighed: Weighed,
): Promise<Decision | 'facts-moved'> {
  const { db } = authority.database
  if (!(await operatorStands(db, weighed))) return 'facts-moved'
  const { row, body } = signOnBasis(authority, basisOf(weighed))
  const committed =
    weighed.introducer === undefined
      ? await recordGrant(db, { ...row, generation: weighed.standing.generation ?? -1 }, promiseOf(weighed))
      : await inTransaction(db, tx => grantIntroduced(tx, weighed, row)).catch(notForMovedFacts)
  return committed ? { kind: 'granted', body } : 'facts-moved'
}

/** Sees to it, once for each, that a block of an operator that attests the agent will find its connection. */
async function operatorStands(db: Db, weighed: Weighed): Promise<boolean> {
  const { agent, standing, family } = weighed
  const origin = newOperator(agent, standing)
  if (origin === undefined) return true
  const { handle, operatorName: name } = agent
  const beside = { owner: family.owner, handle, generation: standing.generation!, origin, name }
  return inTransaction(db, tx => addOperator(tx, beside))
}

/** Throws where the grant cannot be written, for then its connection must not be either. */
async function grantIntroduced(tx: Tx, weighed: Weighed, row: GrantRow): Promise<boolean> {
  if (!(await introductionStands(tx, weighed))) return false
  const generation = await admitIntroduced(tx, weighed)
  if (!(await recordGrant(tx, { ...row, generation }, promiseOf(weighed)))) throw new FactsMoved()
  return true
}

/** Undoes a transaction that found what it rests on changed. */
export class FactsMoved extends Error {}

function notForMovedFacts(error: unknown): false {
  if (error instanceof FactsMoved) return false
  throw error
}

/** Tells the ledger of the promise that a request held for the owner was made with. */
export async function recordPromise(tx: Tx, weighed: Weighed): Promise<void> {
  const { owner, family } = weighed.family
  const { handle } = weighed.agent
  const entries = promiseOf(weighed).map(entry => ({ ...entry, family, handle }))
  await appendLedgerAll(tx, owner, entries)
}

/**
 * `promised`, with what the agent gave as its reason and mission, and `relaxed` where a rule let through what
 * the tier would have asked about.
 */
function promiseOf(weighed: Weighed): { kind: 'promised' | 'relaxed'; data: Record<string, unknown> }[] {
  const { family, agreement, governed, facts, tierAnswer, answer } = weighed
  const { tier_id, ask_me } = governed.tier
  const promised = {
    resource_id: family.resource_id,
    tier: tier_id,
    template_id: weighed.template.template_id,
    agreement: agreement.hash,
    effect: answer.kind,
    scopes: weighed.scopes,
    because: tierAnswer.because,
    reason: agreement.claims.reason ?? null,
    mission: shownMission(agreement),
    facts,
  }
  const relaxed = { tier: tier_id, because: tierAnswer.because }
  return [
    { kind: 'promised', data: promised },
    ...(answer.kind === 'grant' && ask_me ? [{ kind: 'relaxed' as const, data: relaxed }] : []),
  ]
}
