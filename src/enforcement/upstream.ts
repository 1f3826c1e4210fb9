/**
 * Owns what an allowed call carries to the tool. Contract: "Authorized call" and "Authentication": the
 * credential ends here, and what the tool is told about the caller comes from the grant alone.
 */
import { UPSTREAM_HEADER } from '../wire/names.ts'
import { refuse } from '../wire/refusal.ts'
import type { Allowed, Call } from './call.ts'
import type { LiveGrant } from './introspection.ts'

const CREDENTIAL_HEADERS = ['authorization', 'signature', 'signature-input']

export interface PassedOn {
  /** Absent for methods that need no grant. */
  grant?: LiveGrant
  tool?: string
  /** Header fields that come only with a grant. */
  grantFields?: readonly string[] | undefined
  keepCredentials: boolean
}

/**
 * The allowed outcome of a call: our headers are set, and the credential is removed, and what comes only with
 * a grant. The door removes what a client forged.
 */
export function allowCall(call: Call, { grant, tool, grantFields = [], keepCredentials }: PassedOn): Allowed {
  const headers = grant === undefined ? {} : grantHeaders(grant, tool)
  const presentsGrant = grant !== undefined || presentedGrant(call) !== undefined
  const credentials = presentsGrant && !keepCredentials ? CREDENTIAL_HEADERS : []
  return {
    kind: 'allow',
    headers,
    remove: [...credentials, ...grantFields],
    metadata: {
      decision: 'allow',
      reason: grant === undefined ? 'no_grant_needed' : 'granted',
      ...(grant === undefined ? {} : { family: grant.family, handle: grant.sub }),
    },
  }
}

function grantHeaders(grant: LiveGrant, tool: string | undefined): Record<string, string> {
  return {
    [UPSTREAM_HEADER.owner]: grant.owner,
    [UPSTREAM_HEADER.agent]: grant.sub,
    [UPSTREAM_HEADER.family]: grant.family,
    [UPSTREAM_HEADER.contract]: grant.contract,
    ...(tool === undefined ? {} : { [UPSTREAM_HEADER.tool]: tool }),
  }
}

const TOKEN_CHARACTERS_MAX = 8192
const TOKEN = /^[A-Za-z0-9\-._~+/]+=*$/ // RFC 9110 §11.2, token68
const SCHEME = /^PoP[ \t]+/i

/**
 * The credential after the scheme `PoP`, which is compared without regard to case; undefined for no or
 * another scheme. Refuses `invalid_request` for a credential that no authority could have issued.
 */
export function presentedGrant(call: Pick<Call, 'headers'>): string | undefined {
  const value = call.headers.get('authorization')?.[0]?.trim() ?? ''
  const scheme = SCHEME.exec(value)?.[0]
  if (scheme === undefined) return undefined
  const token = value.slice(scheme.length)
  if (token.length > TOKEN_CHARACTERS_MAX || !TOKEN.test(token)) {
    refuse('invalid_request', 'Send the grant after PoP as it was given.')
  }
  return token
}
