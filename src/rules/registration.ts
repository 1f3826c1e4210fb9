/**
 * Owns the states of a resource server's registration, what each state allows, and what its document must say.
 * Contract: "Resource server registration", "Resource server establishment: POST `/rs/register`".
 */

export const REGISTRATION_STATES = ['pending', 'active', 'revoked'] as const
export type RegistrationState = (typeof REGISTRATION_STATES)[number]
export const REGISTRATION_TRIGGERS = ['registered', 'owner_approves', 'owner_withdraws'] as const
export type RegistrationTrigger = (typeof REGISTRATION_TRIGGERS)[number]

/** Resource servers that may wait for one owner at once. */
export const PENDING_SERVERS_MAX = 20

const MOVES: Record<'none' | RegistrationState, Partial<Record<RegistrationTrigger, RegistrationState>>> = {
  none: { registered: 'pending' },
  pending: { registered: 'pending', owner_approves: 'active', owner_withdraws: 'revoked' },
  active: { registered: 'active', owner_withdraws: 'revoked' },
  revoked: { registered: 'pending' },
}

/**
 * The state after `trigger`, or undefined where nothing moves (409 at the owner API). Registering again leaves an active
 * server active and makes a revoked one pending: only the owner lets it back in.
 */
export function nextRegistrationState(
  from: 'none' | RegistrationState,
  trigger: RegistrationTrigger,
): RegistrationState | undefined {
  return MOVES[from][trigger]
}

/**
 * Why this server gets no PAT and none of its PATs is honoured, as the 403 code: pending `authorization_pending`, revoked
 * `access_denied`; undefined when active. Read at every use, so that issuance and verification stop at once.
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
 * Why the document does not establish the claim, as a sentence, or undefined: it must claim this very resource, name this
 * authorization server, and publish its keys at the resource's own origin.
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

/** Whether both are URLs of one scheme, host and port. A URL without an origin of its own is the same as none. */
export function sameOrigin(one: string, other: string): boolean {
  if (!URL.canParse(one) || !URL.canParse(other)) return false
  const { origin } = new URL(one)
  return origin !== 'null' && origin === new URL(other).origin
}
