/**
 * Who signed an agreement, as far as the checks that ran found out: the handle, the operator that it names,
 * and the assurance axes, which can only make the treatment of a request stricter. Contract: "Connection"
 * (handles), "Agreement (claim_token, beat 3)".
 */
import { assuranceOf, type Assurance } from '../../rules/assurance.ts'
import {
  agentIdentity,
  handleOf,
  operatorOrigin,
  subjectHandle,
  type AgentIdentity,
  type ClaimedIdentity,
} from '../../wire/agents/agent-identity.ts'
import { openClaimToken, verifyAgreement, type Agreement } from '../../wire/negotiation/agreement.ts'
import { parseJws, type Verified } from '../../wire/signatures/jws.ts'
import { Refusal } from '../../wire/refusal.ts'
import type { AgentIssuers } from './agent-issuers.ts'
import type { Handle } from '../../wire/identifiers.ts'

/** How long one request may wait for documents of others, in milliseconds. */
export const REMOTE_MS_MAX = 3_000

export interface Identified {
  handle: Handle
  identity: 'pseudonymous' | 'identified'
  /** Thumbprint of the signing key, which the grant will be bound to. */
  jkt: string
  /** Origin of the client_id it named, if it named one; a claim until its directory lists the key. */
  operator: string | undefined
  client_id: string | undefined
  signature_agent: string | undefined
  /** The operator's name in its client document. */
  operatorName: string | undefined
  /** The operator's directory, same origin, lists the signing key. */
  attested: boolean
  /** Those of the requested keys that this directory lists. */
  published: ReadonlySet<string>
  assurance: Assurance
  /** One sentence per check that ran or could not run. */
  notes: string[]
}

export interface Signed {
  agreement: Verified<Agreement>
  agent: Identified
}

/** Why no signature was verified, and whom the claim token names. */
export interface Unproven {
  code: string
  /** For the agent's developer. */
  sentence: string
  /** Set if a handle is claimed, or may be. */
  unverified?: { handle: Handle | undefined }
}

/**
 * Verifies a claim token and reads who signed it; an agent token is verified with its issuer's published
 * keys. No operator document is read yet. If that fails, returns `fault` with the sentence for the agent;
 * throws `temporarily_unavailable` if the issuer's keys cannot be had, which says nothing about the agent.
 * @param deadline ms since the epoch at which waiting for an issuer ends.
 */
export async function identify(
  issuers: AgentIssuers,
  claimToken: string,
  deadline: number,
): Promise<Signed | { fault: Unproven }> {
  let claimed: ClaimedIdentity | undefined
  try {
    const document = openClaimToken(claimToken)
    claimed = agentIdentity(document.header)
    const agreement = verifyAgreement(document, await verifyIdentity(issuers, claimed, deadline))
    return { agreement, agent: describe(agreement) }
  } catch (error) {
    if (!(error instanceof Refusal) || error.code === 'temporarily_unavailable') throw error
    const sentence = error.detail ?? 'The agreement could not be verified.'
    if (claimed === undefined) return { fault: { code: 'agreement_unverified', sentence } }
    return {
      fault: {
        code: refusalReason(issuers, claimed),
        sentence,
        unverified: { handle: claimedHandle(issuers, claimed) },
      },
    }
  }
}

/**
 * A bare key vouches for itself; a token is verified with its issuer's keys. Throws like
 * `AgentIssuers.verify`.
 */
export async function verifyIdentity(
  issuers: AgentIssuers,
  claimed: ClaimedIdentity,
  deadline: number,
): Promise<AgentIdentity> {
  if (claimed.kind === 'key') return claimed
  return { kind: 'agent_token', agent: await issuers.verify(claimed, deadline) }
}

function refusalReason(issuers: AgentIssuers, claimed: ClaimedIdentity): string {
  const isStranger = claimed.kind === 'agent_token' && !issuers.lists(claimed.iss)
  return isStranger ? 'issuer_not_listed' : 'identity_unverified'
}

/** The handle that a request claims but did not prove; undefined if it claims no possible handle. */
function claimedHandle(issuers: AgentIssuers, claimed: ClaimedIdentity): Handle | undefined {
  if (claimed.kind === 'key') return handleOf(claimed)
  const { sub } = parseJws(claimed.token).payload
  return typeof sub === 'string' && !sub.includes('\0') && issuers.lists(claimed.iss)
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
