/**
 * Who signed an agreement, as far as checks that ran can tell: the handle, the operator it names, and the
 * assurance axes, which can only make a request stricter. Contract: "Connection" (handles), "Agreement".
 */
import { introductionAnswer } from '../rules/connection.ts'
import { readConnection } from '../storage/connections.ts'
import type { Db } from '../storage/database.ts'
import { agentIdentity, handleOf, operatorOrigin } from '../wire/agent-identity.ts'
import { openClaimToken, verifyAgreement, type Agreement } from '../wire/agreement.ts'
import { introducerOf, verifyIntroduction } from '../wire/introduction.ts'
import type { Verified } from '../wire/jws.ts'
import { Refusal, refuse } from '../wire/refusal.ts'
import type { Authority } from './context.ts'

export interface Identified {
  handle: string
  identity: 'pseudonymous' | 'identified'
  /** Origin of the client_id it named, if it named one; a claim until its directory lists the key. */
  operator: string | undefined
  client_id: string | undefined
  signature_agent: string | undefined
  /** The operator's directory, same origin, lists the signing key. */
  attested: boolean
  assurance: { binding: 0 | 1; provenance: 0 | 1; accountability: 0 | 1 | 2 }
  /** One sentence per check that ran or could not. */
  notes: string[]
}

/** Nothing is fetched from an issuer that is not listed, and none can be listed yet. */
const NO_ISSUER =
  'agent_token: no issuer of agent tokens is trusted here; sign with a bare key (jwk) instead.'

/**
 * Verifies a claim token and reads who signed it. No operator document is fetched: accountability is 0 and
 * says so. Throws `invalid_request` with the sentence for the agent.
 */
export function identify(claimToken: string): { agreement: Verified<Agreement>; agent: Identified } {
  const document = openClaimToken(claimToken)
  if (agentIdentity(document.header).kind === 'agent_token') refuse('invalid_request', NO_ISSUER)
  const agreement = verifyAgreement(document)
  const { client_id, signature_agent } = agreement
  const operator = client_id === undefined ? undefined : operatorOrigin(client_id)
  const agent: Identified = {
    handle: handleOf(agreement.identity),
    identity: 'pseudonymous',
    operator,
    client_id,
    signature_agent,
    attested: false,
    assurance: { binding: 1, provenance: 0, accountability: 0 },
    notes: [
      'binding: signed by the key that the grant will be bound to',
      'provenance: a key of its own making, vouched for by no issuer',
      operator === undefined
        ? 'accountability: names no operator'
        : 'accountability: names an operator; its documents were not read',
    ],
  }
  return { agreement, agent }
}

/**
 * Weighs the introduction an agreement carries. A malformed, misdirected or expired one denies the whole
 * request (throws `invalid_request`); one that the owner's record does not bear out falls back to first
 * contact, and the reason is kept.
 * @returns the note for the owner.
 */
export async function weighIntroduction(
  authority: Authority,
  db: Db,
  of: { owner: string; agreement: Verified<Agreement>; agent: Identified; introduction: unknown },
): Promise<string> {
  const claimed = introducerOf(of.introduction)
  if (claimed.kind === 'agent_token') throw new Refusal('invalid_request', NO_ISSUER)
  const introduction = verifyIntroduction(of.introduction as string, claimed, {
    newcomer: of.agreement.key,
    aud: authority.issuer,
    now: authority.now(),
  })
  const [newcomer, introducer] = await Promise.all([
    readConnection(db, of.owner, of.agent.handle),
    readConnection(db, of.owner, handleOf(introduction.introducer)),
  ])
  // Unestablished facts never help the newcomer: no operator's directory has been read.
  const answer = introductionAnswer({
    namedBy: 'introduction',
    newcomer: newcomer?.status ?? 'none',
    introducer: introducer?.status ?? 'none',
    introducerApprovedInPerson: undefined,
    introducerWasIntroduced: introducer === undefined ? undefined : introducer.introduced_by !== null,
    oneOperatorPublishedBoth: undefined,
    liveIntroduced: undefined,
  })
  return `introduction: ${answer.ok ? 'accepted' : answer.because}`
}
