/**
 * Who signed an agreement, as far as checks that ran can tell: the handle, the operator it names, and the
 * assurance axes, which can only make a request stricter. Contract: "Connection" (handles), "Agreement (claim_token, beat 3)".
 */
import { assuranceOf, type Assurance } from '../../rules/assurance.ts'
import { isBlocked, readConnection } from '../../storage/authority/connections.ts'
import { hasActiveAgents } from '../../storage/authority/operators.ts'
import {
  agentIdentity,
  handleOf,
  operatorOrigin,
  subjectHandle,
  type AgentIdentity,
  type ClaimedIdentity,
} from '../../wire/agent-identity.ts'
import { openClaimToken, verifyAgreement, type Agreement } from '../../wire/agreement.ts'
import { parseJws, type Verified } from '../../wire/jws.ts'
import { Refusal } from '../../wire/refusal.ts'
import type { Refused } from '../negotiation/answers.ts'
import type { Authority } from '../context.ts'
import type { Patience } from './operator-documents.ts'

/** All that one request may wait for documents of others, in milliseconds. */
export const REMOTE_MS_MAX = 3_000

export interface Identified {
  handle: string
  identity: 'pseudonymous' | 'identified'
  /** Thumbprint of the signing key, which the grant will be bound to. */
  jkt: string
  /** Origin of the client_id it named, if it named one; a claim until its directory lists the key. */
  operator: string | undefined
  client_id: string | undefined
  signature_agent: string | undefined
  /** What the operator's client document calls it. */
  operatorName: string | undefined
  /** The operator's directory, same origin, lists the signing key. */
  attested: boolean
  /** Of the keys that were looked for in that directory, those it lists. */
  published: ReadonlySet<string>
  assurance: Assurance
  /** One sentence per check that ran or could not. */
  notes: string[]
}

export interface Signed {
  agreement: Verified<Agreement>
  agent: Identified
}

/**
 * Verifies a claim token and reads who signed it; an agent token is verified with its issuer's published keys. No
 * operator document is read yet. Answers `fault` with the sentence for the agent where that fails.
 * @param deadline ms since the epoch at which waiting for an issuer ends.
 */
export async function identify(
  authority: Authority,
  claimToken: string,
  deadline: number,
): Promise<Signed | { fault: Refused }> {
  let claimed: ClaimedIdentity | undefined
  try {
    const document = openClaimToken(claimToken)
    claimed = agentIdentity(document.header)
    const agreement = verifyAgreement(document, await verifyIdentity(authority, claimed, deadline))
    return { agreement, agent: describe(agreement) }
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    const sentence = error.detail ?? 'The agreement could not be verified.'
    if (claimed === undefined) return { fault: { code: 'agreement_unverified', sentence } }
    const code =
      error.code === 'temporarily_unavailable' ? 'issuer_unread' : refusalReason(authority, claimed)
    return { fault: { code, sentence, unverified: { handle: claimedHandle(authority, claimed) } } }
  }
}

/** A bare key vouches for itself; a token is verified with its issuer's keys. Throws as `AgentIssuers.verify`. */
export async function verifyIdentity(
  authority: Authority,
  claimed: ClaimedIdentity,
  deadline: number,
): Promise<AgentIdentity> {
  if (claimed.kind === 'key') return claimed
  return { kind: 'agent_token', agent: await authority.issuers.verify(claimed, deadline) }
}

function refusalReason(authority: Authority, claimed: ClaimedIdentity): string {
  const isStranger = claimed.kind === 'agent_token' && !authority.issuers.lists(claimed.iss)
  return isStranger ? 'issuer_not_listed' : 'identity_unverified'
}

/** The handle that a request claims and did not prove; undefined where it claims none that could be one. */
function claimedHandle(authority: Authority, claimed: ClaimedIdentity): string | undefined {
  if (claimed.kind === 'key') return handleOf(claimed)
  const { sub } = parseJws(claimed.token).payload
  return typeof sub === 'string' && !sub.includes('\0') && authority.issuers.lists(claimed.iss)
    ? subjectHandle(sub, claimed.iss)
    : undefined
}

function describe(agreement: Verified<Agreement>): Identified {
  const { client_id, signature_agent, identity } = agreement
  const operator = client_id === undefined ? undefined : operatorOrigin(client_id)
  const isIdentified = identity.kind === 'agent_token'
  return {
    handle: handleOf(identity),
    identity: isIdentified ? 'identified' : 'pseudonymous',
    jkt: agreement.key.thumbprint,
    operator,
    client_id,
    signature_agent,
    operatorName: undefined,
    attested: false,
    published: new Set(),
    assurance: assuranceOf({
      signed: true,
      issuerVouches: isIdentified,
      clientDocumentClaimsItsUrl: false,
      directoryListsKey: false,
    }),
    notes: [
      'binding: signed by the key that the grant will be bound to',
      isIdentified
        ? `provenance: ${identity.agent.iss} vouches for the key`
        : 'provenance: a key of its own making, vouched for by no issuer',
      ...(operator === undefined ? ['accountability: names no operator'] : []),
    ],
  }
}

/**
 * What the named operator publishes of this agent, and which of `otherKeys` (thumbprints) its directory lists. Nothing is
 * fetched from an operator that the owner blocked. A document that cannot be had leaves its level at 0.
 */
export async function withOperator(
  authority: Authority,
  owner: string,
  agent: Identified,
  of: { otherKeys: readonly string[]; deadline: number },
): Promise<Identified> {
  const { client_id, signature_agent, operator, jkt } = agent
  const { db } = authority.database
  if (client_id === undefined || operator === undefined || (await isBlocked(db, owner, operator)))
    return agent
  const found = await authority.operators.lookUp(
    { client_id, signature_agent, jkts: [jkt, ...of.otherKeys] },
    await patienceWith(authority, owner, agent, of.deadline),
  )
  const attested = found.listed.has(jkt)
  return {
    ...agent,
    operatorName: found.name,
    attested,
    published: found.listed,
    assurance: assuranceOf({
      signed: true,
      issuerVouches: agent.identity === 'identified',
      clientDocumentClaimsItsUrl: found.clientDocumentClaimsItsUrl,
      directoryListsKey: attested,
    }),
    notes: [...agent.notes, ...found.notes],
  }
}

/** Strangers naming operators must not keep out the documents of those that the owner already deals with. */
async function patienceWith(
  authority: Authority,
  owner: string,
  agent: Identified,
  deadline: number,
): Promise<Patience> {
  const { db } = authority.database
  const [connection, isKnown] = await Promise.all([
    readConnection(db, owner, agent.handle),
    hasActiveAgents(db, owner, agent.operator!),
  ])
  return { deadline, favoured: connection?.status === 'active' || isKnown }
}
