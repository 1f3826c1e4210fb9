/**
 * Owns the renewal of a grant that ends soon by another one on the same terms, without asking anybody.
 * Contract: "Grant (RPT) liveness"; "Single-use grant": a single-use approval is never treated as a held
 * grant.
 */
import type { Challenge } from '../../../wire/negotiation/negotiation.ts'
import type { TermsTemplate } from '../../../wire/negotiation/terms.ts'
import { AgentError, fail } from '../../agent-error.ts'
import type { ToolCall } from '../../transports/mcp.ts'
import type { Directory } from '../../negotiation/metadata.ts'
import { negotiate, withdrawRequest, type NegotiationRequest } from '../../negotiation/negotiate.ts'
import type { Profile } from '../../profile.ts'
import type { Grant } from '../../store.ts'
import { ownerIn } from './family.ts'
import type { ResourceOwner } from './state.ts'

/** A grant, and who it was given to. */
export interface AgentGrant {
  grant: Grant
  profile: Profile
}

interface About {
  resource: string
  call: ToolCall
}

export interface RenewalParts {
  directory: Directory
  profileOf(owner: ResourceOwner): Promise<Profile>
  /** Whether a person agreed to these terms of the tool. */
  isAgreed(template: TermsTemplate, about: About): Promise<boolean>
}

export interface Renewals {
  /**
   * The grant that follows `access`; undefined if somebody would have to be asked. Concurrent calls share one
   * negotiation, which continues for the others if one leaves.
   */
  after(access: AgentGrant, about: About, challenge: Challenge): Promise<AgentGrant | undefined>
  /**
   * Whether it is known that somebody would have to be asked for the grant that follows: each further attempt
   * would put a request before the owner, and take it back.
   */
  isInVain(access: AgentGrant, about: About): boolean
  close(): void
}

export function createRenewals(parts: RenewalParts): Renewals {
  const underWay = new Map<string, Promise<AgentGrant | undefined>>()
  /** The grant of each tool that nobody renews without being asked. */
  const inVain = new Map<string, string>()
  const ending = new AbortController()
  const nameOf = ({ resource, call }: About): string => JSON.stringify([resource, call.tool])
  return {
    after: (access, about, challenge) => {
      const name = nameOf(about)
      const known = underWay.get(name)
      if (known !== undefined) return known
      const renewed = renew(parts, { access, about, challenge, signal: ending.signal })
        .catch((error: unknown) => {
          if (!(error instanceof AgentError)) throw error
          if (error.code === 'terms_unanswered') inVain.set(name, access.grant.jti)
          return undefined
        })
        .finally(() => underWay.delete(name))
      underWay.set(name, renewed)
      return renewed
    },
    isInVain: ({ grant }, about) => inVain.get(nameOf(about)) === grant.jti,
    close: () => ending.abort(),
  }
}

async function renew(
  parts: RenewalParts,
  {
    access,
    about,
    challenge,
    signal,
  }: { access: AgentGrant; about: About; challenge: Challenge; signal: AbortSignal },
): Promise<AgentGrant | undefined> {
  const { directory } = parts
  const of = ownerIn(challenge)
  const profile = await parts.profileOf(of)
  const confirm = async (template: TermsTemplate): Promise<boolean> => {
    if (template.per_operation !== true && (await parts.isAgreed(template, about))) return true
    return fail('terms_unanswered', 'The terms are others than were agreed to.')
  }
  const onWaiting: NegotiationRequest['onWaiting'] = async waiting => {
    await withdrawRequest(profile, directory, { ...about, waiting })
    fail('terms_unanswered', 'The owner would have to be asked.')
  }
  const request = { ...about, owner: of.owner, challenge, signal, confirm, onWaiting }
  const { grant } = await negotiate(profile, directory, request)
  if (grant.single_use) return undefined
  await access.profile.store.dropGrant(access.grant)
  return { grant, profile }
}
