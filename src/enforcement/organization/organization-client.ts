/**
 * Owns the calls to the organization above one owner. Contract: "The organization's authority"
 * (`/membership/{owner}`, `/introspect`, `/consume`) and "Authentication" (the credential that the
 * organization provisioned). Paths are below the configured issuer; nothing in a request can name another.
 */
import {
  OutboundFault,
  plainWords,
  type Outbound,
  type OutboundAnswer,
  type OutboundRequest,
} from '../../http/outbound/outbound.ts'
import { parseEnforcedMembership, type EnforcedMembership } from '../../wire/documents/enforced-membership.ts'
import type { Owner } from '../../wire/identifiers.ts'
import { parseJson } from '../../wire/json.ts'
import type { PrivateKey } from '../../wire/signatures/keys.ts'
import { AUTHORITY_PATH, ORGANIZATION_PATH } from '../../wire/names.ts'
import { signedGet, signedPost } from '../authorities/signed-post.ts'
import type { Deadline } from '../deadline.ts'
import { outage } from '../outage.ts'
import { readConsumption, type Consumption } from '../introspection.ts'

/** How this enforcement point proves itself, as the organization provisioned it. */
export type OrganizationProof = { kind: 'secret'; secret: string } | { kind: 'signature'; key: PrivateKey }

export interface OrganizationEnforcementClientOptions {
  issuer: string
  owner: Owner
  proof: OrganizationProof
  outbound: Outbound
  /** Milliseconds since the epoch. */
  clock: () => number
}

/** Every method throws `temporarily_unavailable` (503) if no definite answer comes before the deadline. */
export interface OrganizationEnforcementClient {
  membership(deadline: Deadline): Promise<EnforcedMembership>
  /** POST /introspect: the answer as it came. Never cached. */
  introspect(token: string, deadline: Deadline): Promise<unknown>
  /** POST /consume. It is sent at most once. */
  consume(token: string, deadline: Deadline): Promise<Consumption>
}

/** A client that sends nothing until its first use. */
export function createOrganizationClient(
  options: OrganizationEnforcementClientOptions,
): OrganizationEnforcementClient {
  const { issuer, owner, outbound } = options
  const ask = async (call: OrganizationRequest, deadline: Deadline): Promise<unknown> => {
    const timeoutMs = deadline.remainingMs()
    if (timeoutMs <= 0) throw outage('There was no time left to ask the organization.')
    const sentAt = performance.now()
    const request = { ...proven(issuer, call, options), repeatable: call.repeatable, timeoutMs }
    const answer = await outbound
      .request(request)
      .catch((error: unknown) => {
        if (!(error instanceof OutboundFault)) throw error
        throw outage(`The organization could not be asked: ${plainWords(error)}.`, error)
      })
      .finally(() => deadline.waited(performance.now() - sentAt))
    return readAnswer(answer, call)
  }
  const about = (path: string, token: string, repeatable: boolean): OrganizationRequest => ({
    path,
    body: String(new URLSearchParams({ token })),
    repeatable,
  })
  return {
    membership: async deadline => {
      const call = { path: `${ORGANIZATION_PATH.membership}/${owner}`, repeatable: true }
      const answer = await ask(call, deadline)
      try {
        return parseEnforcedMembership(answer)
      } catch (cause) {
        throw outage('The organization described a membership in a form that cannot be read.', cause)
      }
    },
    introspect: (token, deadline) => ask(about(AUTHORITY_PATH.introspect, token, true), deadline),
    consume: async (token, deadline) =>
      readConsumption(await ask(about(AUTHORITY_PATH.consume, token, false), deadline)),
  }
}

/** `body` is a form, as RFC 7662 §2.1 has it; left out for a GET. */
interface OrganizationRequest {
  path: string
  body?: string
  /** Whether the request can be repeated without harm. */
  repeatable: boolean
}

const FORM = 'application/x-www-form-urlencoded'

function proven(
  issuer: string,
  { path, body }: OrganizationRequest,
  { proof, clock }: OrganizationEnforcementClientOptions,
): OutboundRequest {
  const url = issuer + path
  if (proof.kind === 'signature')
    return body === undefined
      ? signedGet(url, proof.key, clock)
      : signedPost({ url, contentType: FORM, body }, proof.key, clock)
  const headers = { accept: 'application/json', authorization: `Bearer ${proof.secret}` }
  return body === undefined
    ? { method: 'GET', url, headers }
    : { method: 'POST', url, headers: { ...headers, 'content-type': FORM }, body }
}

/**
 * Anything but 200 is no answer. If the owner is unknown there, the two are configured wrongly, and nothing
 * is allowed.
 */
function readAnswer({ status, body }: OutboundAnswer, { path }: OrganizationRequest): unknown {
  const [, what] = path.split('/', 2)
  if (status !== 200) throw outage(`The organization answered /${what} with ${status}.`)
  try {
    return parseJson(body)
  } catch (cause) {
    throw outage(`The organization answered /${what} with no well-formed JSON.`, cause)
  }
}
