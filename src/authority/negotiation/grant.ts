/**
 * Makes a grant: RPT and receipt are signed first, then one transaction records them from the connection
 * row at the generation the decision was made under. Contract: "Grant answer (beat 4)", "RPT claims".
 */
import { absentEchoes } from '../../rules/agreement.ts'
import type { RequestFacts } from '../../rules/conditions.ts'
import { inTransaction } from '../../storage/core/database.ts'
import type { Tx } from '../../storage/authority/database.ts'
import { recordGrant, type NewGrant } from '../../storage/authority/grants.ts'
import { appendLedgerAll } from '../../storage/authority/ledger.ts'
import { addOperator } from '../../storage/authority/operators.ts'
import { s256Json, sha256 } from '../../wire/encoding.ts'
import { grantAnswer } from '../../wire/negotiation.ts'
import { signReceipt } from '../../wire/agreement.ts'
import { newJti } from '../../wire/ticket.ts'
import { signRpt } from '../../wire/tokens.ts'
import { newOperator, type Weighed } from './presentation.ts'
import type { Answer } from './answers.ts'
import type { Authority } from '../context.ts'
import { admitIntroduced, introductionStands } from '../agents/introductions.ts'

/** What a grant is made of, whether it is made at once or kept until the owner has approved. */
export interface GrantBasis {
  owner: string
  family: string
  handle: string
  client_id: string
  aud: string
  resource_id: string
  scopes: string[]
  expires_in: number
  tier_id: string
  tier_epoch: number
  tier_version: number
  /** Of the resource server. */
  server_generation: number
  /** That the resource must still have when the grant is made. */
  resource_scopes: string[]
  /** Named by the agreement. */
  operator: string | null
  /** What the tier's rules see of the agreement itself, for when they are asked again. */
  facts: Pick<RequestFacts, 'assurance' | 'request'>
  template_id: string
  terms_uri: string
  consequence: string | null
  single_use: boolean
  operation: { tool: string; params_s256: string } | null
  agreement_jws: string
  agreement: string
  /** Claims of the offer that the agreement left out; absent in an item that was held before this was recorded. */
  echo_absent?: string[]
  cnf: { kty: 'OKP'; crv: 'Ed25519'; x: string }
  jkt: string
}

/** The basis of a grant from a weighed agreement. */
export function basisOf(weighed: Weighed): GrantBasis {
  const { family, governed, agreement, agent, scopes, expiresIn, operation, answer } = weighed
  const { server, resource, tier } = governed
  const template = family.template as { template_id: string; terms_uri: string }
  const single_use = answer.kind !== 'deny' && answer.singleUse
  return {
    owner: family.owner,
    family: family.family,
    handle: agent.handle,
    client_id: server.client_id,
    aud: server.resource_uri,
    resource_id: resource.resource_id,
    scopes,
    expires_in: expiresIn,
    tier_id: tier.tier_id,
    tier_epoch: tier.epoch,
    tier_version: tier.version,
    server_generation: server.generation,
    resource_scopes: family.resource_scopes,
    operator: agent.operator ?? null,
    facts: { assurance: weighed.facts.assurance, request: weighed.facts.request },
    template_id: template.template_id,
    terms_uri: template.terms_uri,
    consequence: resource.consequence,
    single_use,
    operation:
      single_use && operation !== undefined
        ? { tool: operation.tool, params_s256: s256Json(operation.params) }
        : null,
    agreement_jws: agreement.compact,
    agreement: agreement.hash,
    echo_absent: absentEchoes(agreement.claims),
    cnf: { kty: 'OKP', crv: 'Ed25519', x: agreement.key.x },
    jkt: agreement.key.thumbprint,
  }
}

/** A signed grant, not yet recorded: nothing is signed inside a transaction or after it. */
export interface SignedGrant {
  row: Omit<NewGrant, 'generation'>
  answer: Answer
}

/** What the statement that records the grant is to find as it was. */
function restsOn(basis: GrantBasis): NewGrant['restsOn'] {
  return {
    tierVersion: basis.tier_version,
    serverGeneration: basis.server_generation,
    resourceScopes: basis.resource_scopes,
    consequence: basis.consequence,
    operator: basis.operator,
  }
}

/** Signs the RPT and the receipt. */
export function signGrant(authority: Authority, basis: GrantBasis): SignedGrant {
  const now = authority.now()
  const exp = now + basis.expires_in
  const jti = newJti('rpt_')
  const { owner, family, handle } = basis
  const claims = {
    iss: authority.issuer,
    sub: handle,
    client_id: handle,
    aud: basis.aud,
    jti,
    iat: now,
    exp,
    cnf: { jwk: basis.cnf },
    permissions: [{ resource_id: basis.resource_id, resource_scopes: basis.scopes, exp }],
    contract: basis.agreement,
    owner,
    family,
    ...(basis.consequence === null ? {} : { consequence: basis.consequence }),
    ...(basis.single_use && basis.operation !== null
      ? { single_use: true as const, operation: basis.operation }
      : {}),
  }
  const rpt = signRpt(claims, authority.keys[0])
  const receipt = signReceipt(
    {
      iss: authority.issuer,
      sub: handle,
      owner,
      iat: now,
      jti: newJti('rcp_'),
      family,
      resource_id: basis.resource_id,
      terms_uri: basis.terms_uri,
      template_id: basis.template_id,
      agreement: basis.agreement,
      agreement_jws: basis.agreement_jws,
      cnf: { jkt: basis.jkt },
      rpt: jti,
      ...(basis.echo_absent === undefined || basis.echo_absent.length === 0
        ? {}
        : { echo_absent: basis.echo_absent }),
    },
    authority.keys[0],
  )
  return {
    row: {
      owner,
      rptSha256: sha256(rpt),
      jti,
      family,
      handle,
      client_id: basis.client_id,
      aud: basis.aud,
      resource_id: basis.resource_id,
      tier_id: basis.tier_id,
      tierEpoch: basis.tier_epoch,
      restsOn: restsOn(basis),
      single_use: basis.single_use,
      claims,
      receipt,
      expiresAt: exp,
    },
    answer: { status: 200, body: grantAnswer({ access_token: rpt, expires_in: basis.expires_in, receipt }) },
  }
}

/**
 * Grants at once: the connection is known, or an introduction makes it, and the tier asks nothing. 'facts-moved' where
 * the connection (or the introducer's) was revoked or admitted anew since its standing was read, the operator blocked, or the
 * tier, its resource or the resource server changed; then no grant was made.
 */
export async function grantNow(authority: Authority, weighed: Weighed): Promise<Answer | 'facts-moved'> {
  const { db } = authority.database
  if (!(await operatorStands(authority, weighed))) return 'facts-moved'
  const { row, answer } = signGrant(authority, basisOf(weighed))
  const committed =
    weighed.introducer === undefined
      ? await recordGrant(db, { ...row, generation: weighed.standing.generation ?? -1 }, promiseOf(weighed))
      : await inTransaction(db, tx => grantIntroduced(tx, weighed, row))
  return committed ? answer : 'facts-moved'
}

/** Sees to it, once for each, that a block of an operator that attests the agent will find its connection. */
async function operatorStands(authority: Authority, weighed: Weighed): Promise<boolean> {
  const { agent, standing, family } = weighed
  const origin = newOperator(agent, standing)
  if (origin === undefined) return true
  const { handle, operatorName: name } = agent
  const beside = { owner: family.owner, handle, generation: standing.generation!, origin, name }
  return inTransaction(authority.database.db, tx => addOperator(tx, beside))
}

async function grantIntroduced(tx: Tx, weighed: Weighed, row: SignedGrant['row']): Promise<boolean> {
  if (!(await introductionStands(tx, weighed))) return false
  const generation = await admitIntroduced(tx, weighed)
  return recordGrant(tx, { ...row, generation }, promiseOf(weighed))
}

/** Tells the ledger of the promise that a request held for the owner was made with. */
export async function recordPromise(tx: Tx, weighed: Weighed): Promise<void> {
  const { owner, family } = weighed.family
  const { handle } = weighed.agent
  const entries = promiseOf(weighed).map(entry => ({ ...entry, family, handle }))
  await appendLedgerAll(tx, owner, entries)
}

/** `promised`, and `relaxed` where a rule let through what the tier would have asked about. */
function promiseOf(weighed: Weighed): { kind: 'promised' | 'relaxed'; data: Record<string, unknown> }[] {
  const { family, agreement, governed, facts, tierAnswer, answer } = weighed
  const { tier_id, ask_me } = governed.tier
  const promised = {
    resource_id: family.resource_id,
    tier: tier_id,
    template_id: (family.template as { template_id: string }).template_id,
    agreement: agreement.hash,
    effect: answer.kind,
    scopes: weighed.scopes,
    because: tierAnswer.because,
    facts,
  }
  const relaxed = { tier: tier_id, because: tierAnswer.because }
  return [
    { kind: 'promised', data: promised },
    ...(answer.kind === 'grant' && ask_me ? [{ kind: 'relaxed' as const, data: relaxed }] : []),
  ]
}
