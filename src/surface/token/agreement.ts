/**
 * Beat 3: it checks who signed the agreement, and that it agrees to the offer; then the party decides.
 * Contract: "Agreement (claim_token, beat 3)", "Errors" (agreement verification failures).
 */
import { agreementFault } from '../../rules/agreement.ts'
import { CLAIM_TOKEN_BYTES_MAX } from '../../wire/negotiation/agreement.ts'
import { agentIssuerPrefixes } from '../../wire/names.ts'
import { identify, REMOTE_MS_MAX, type Identified } from '../agents/identity.ts'
import type { Agreed, Decision, Negotiation, Refused, TicketGrant } from './negotiation.ts'

type PresentedAgreement<Row, Governed> = Pick<
  Agreed<Row, Governed>,
  'family' | 'governed' | 'template' | 'nextHash'
> & {
  claimToken: string
}

/**
 * The decision on a presented agreement. A fault in it ends the negotiation: it is refused, with a sentence.
 */
export async function presentAgreement<Row extends Negotiation, Governed>(
  of: Pick<TicketGrant<Row, Governed>, 'issuer' | 'agentIssuers' | 'decisions' | 'reasonBytesMax'>,
  { claimToken, ...presented }: PresentedAgreement<Row, Governed>,
): Promise<Decision> {
  const { issuer, agentIssuers, decisions, reasonBytesMax } = of
  const { family, template } = presented
  const refused = async (agent: Identified | undefined, why: Refused): Promise<Decision> => {
    await decisions.refuse(family, agent, why)
    return { kind: 'refused', sentence: why.sentence }
  }

  // 1. The agreement has a size that is accepted.
  if (Buffer.byteLength(claimToken) > CLAIM_TOKEN_BYTES_MAX)
    return refused(undefined, {
      code: 'oversized',
      sentence: `claim_token: keep it within ${CLAIM_TOKEN_BYTES_MAX} bytes.`,
    })

  // 2. Signed by an agent that its key, or an issuer listed here, vouches for.
  const deadline = Date.now() + REMOTE_MS_MAX
  const signed = await identify(agentIssuers, claimToken, deadline)
  if ('fault' in signed) return refused(undefined, signed.fault)

  // 3. To the terms that were offered, for this authorization server, now.
  const fault = agreementFault(signed.agreement.claims, template, {
    issuer: issuer.issuer,
    now: issuer.now(),
    maxReasonBytes: reasonBytesMax,
    agentIssuerPrefixes: agentIssuerPrefixes(issuer.aliases),
  })
  if (fault !== undefined) return refused(signed.agent, { code: 'agreement_weakened', sentence: fault })

  // 4. The owner of the terms decides the rest.
  return decisions.decide({ ...presented, ...signed, deadline })
}
