/**
 * Owns the states of a resource server's registration, how many may wait and for how long, what each state
 * allows, and what its document must say. Contract: "Resource server registration", "Resource server
 * establishment: POST `/rs/register`".
 */

export const REGISTRATION_STATES = ['pending', 'active', 'revoked'] as const
export type RegistrationState = (typeof REGISTRATION_STATES)[number]
export const REGISTRATION_TRIGGERS = ['registered', 'owner_approves', 'owner_withdraws'] as const
export type RegistrationTrigger = (typeof REGISTRATION_TRIGGERS)[number]

/**
 * How many resource servers may wait for one owner at once, and how many of them from one origin of which she
 * has approved nothing.
 */
export const PENDING_SERVERS_MAX = 20
export const PENDING_OF_STRANGE_ORIGIN_MAX = 2
/** How long one waits. If she has not approved it by then, it lapses, as if it had never asked. */
export const PENDING_SECONDS = 7 * 86_400
/** How long a withdrawn one must wait before it may ask her again. */
export const WITHDRAWN_PAUSE_SECONDS = 86_400

const MOVES: Record<'none' | RegistrationState, Partial<Record<RegistrationTrigger, RegistrationState>>> = {
  none: { registered: 'pending' },
  pending: { registered: 'pending', owner_approves: 'active', owner_withdraws: 'revoked' },
  active: { registered: 'active', owner_withdraws: 'revoked' },
  revoked: { registered: 'pending' },
}

/**
 * The state after `trigger`, or undefined if nothing moves (409 at the owner API). Registering again
 * leaves an active server active and makes a revoked one pending: only the owner lets it back in.
 */
export function nextRegistrationState(
  from: 'none' | RegistrationState,
  trigger: RegistrationTrigger,
): RegistrationState | undefined {
  return MOVES[from][trigger]
}

/**
 * The facts known when a resource server registers, read under the lock of the owner's queue; lapsed
 * registrations do not count.
 */
export interface RegistrationFacts {
  /** Its record, if there is one. */
  readonly known:
    | {
        readonly status: RegistrationState
        /** A provisioning file says how it proves itself. */
        readonly provisioned: boolean
        /** The time since the decision; read if the record is withdrawn. */
        readonly decidedSecondsAgo: number
      }
    | undefined
  /** How many wait for this owner. */
  readonly pending: number
  readonly origin: {
    readonly banned: boolean
    /** Some resource server at the origin is active. */
    readonly approved: boolean
    /** How many wait at the origin. */
    readonly pending: number
  }
}

/**
 * The result of a registration. `registered`: it waits for the owner from now on. `waiting`: it waited
 * already. `active`: she has approved it. `provisioned`: a provisioning file says how it proves itself, and
 * no registration changes it. `banned`: she has banned the origin. `paused`: she withdrew it a short time
 * ago. `origin_full`, `full`: too many wait already, of the origin or in all.
 */
export type RegistrationAnswer =
  | { outcome: 'registered' | 'waiting' | 'active' | 'provisioned' | 'banned' | 'origin_full' | 'full' }
  | { outcome: 'paused'; secondsLeft: number }

/**
 * Judges a registration whose origin is proven. An existing record is answered first, because asking again
 * takes no place.
 */
export function registrationAnswer({ known, pending, origin }: RegistrationFacts): RegistrationAnswer {
  if (known?.provisioned === true) return { outcome: 'provisioned' }
  if (known?.status === 'active') return { outcome: 'active' }
  if (origin.banned) return { outcome: 'banned' }
  if (known?.status === 'pending') return { outcome: 'waiting' }
  const secondsLeft = known === undefined ? 0 : Math.ceil(WITHDRAWN_PAUSE_SECONDS - known.decidedSecondsAgo)
  if (secondsLeft > 0) return { outcome: 'paused', secondsLeft }
  if (!origin.approved && origin.pending >= PENDING_OF_STRANGE_ORIGIN_MAX) return { outcome: 'origin_full' }
  if (pending >= PENDING_SERVERS_MAX) return { outcome: 'full' }
  return { outcome: 'registered' }
}

/**
 * Why this server gets no PAT and none of its PATs is honoured, as the 403 code: pending
 * `authorization_pending`, revoked `access_denied`; undefined if active. It is read at every use, so that
 * issuance and verification stop at once.
 */
export function protectionRefusal(
  state: RegistrationState,
): 'authorization_pending' | 'access_denied' | undefined {
  switch (state) {
    case 'pending':
      return 'authorization_pending'
    case 'revoked':
      return 'access_denied'
    case 'active':
      return undefined
  }
}

/** The members of an RFC 9728 document that establish who claims a resource. */
export interface ClaimingDocument {
  readonly resource: string
  readonly authorization_servers?: readonly string[] | undefined
  readonly jwks_uri?: string | undefined
}

/**
 * Why the document does not establish the claim, as a sentence, or undefined: it must claim this very
 * resource, name this authorization server, and publish its keys at the resource's own origin.
 */
export function registrationFault(
  document: ClaimingDocument,
  claim: { readonly resource_uri: string; readonly issuer: string },
): string | undefined {
  if (document.resource !== claim.resource_uri)
    return 'The document at the claimed resource names another resource; its `resource` must equal resource_uri.'
  if (document.authorization_servers?.includes(claim.issuer) !== true)
    return 'The document does not name this authorization server; add its issuer to `authorization_servers`.'
  if (document.jwks_uri === undefined)
    return 'The document names no `jwks_uri`; publish the signing keys and name them.'
  if (!sameOrigin(document.jwks_uri, claim.resource_uri))
    return 'The `jwks_uri` is at another origin than the resource; publish the keys at the origin of the resource.'
  return undefined
}

/** Whether both are URLs of one scheme, host and port. A URL without an origin equals no other. */
export function sameOrigin(one: string, other: string): boolean {
  if (!URL.canParse(one) || !URL.canParse(other)) return false
  const { origin } = new URL(one)
  return origin !== 'null' && origin === new URL(other).origin
}
