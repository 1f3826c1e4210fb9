/**
 * client_credentials: a resource server fetches a PAT for the one owner it names.
 * Contract: "Token endpoint", "Authentication" (resource server at the token endpoint).
 */
import { timingSafeEqual } from 'node:crypto'
import { readOwner } from '../storage/owners.ts'
import { readResourceServer, touchPatIssued, type ResourceServerRow } from '../storage/resources.ts'
import { sha256 } from '../wire/encoding.ts'
import { PROTECTION_SCOPE } from '../wire/names.ts'
import { Refusal, refuse } from '../wire/refusal.ts'
import { newJti } from '../wire/ticket.ts'
import { signPat } from '../wire/tokens.ts'
import type { Answer } from './answers.ts'
import type { Authority } from './context.ts'
import type { TokenRequest } from './token-request.ts'

const CHALLENGE = { headers: { 'www-authenticate': 'Basic realm="token"' } }

interface Presented {
  client_id: string
  secret: string
  /** RFC 6749 §5.2: who used the Authorization header is answered with WWW-Authenticate. */
  byHeader: boolean
}

/**
 * Answers a PAT. The order is fixed: owner served, client known, credential right (401 `invalid_client`, all
 * three alike), pending 403 `authorization_pending`, revoked 403 `access_denied`, scope 400 `invalid_scope`.
 */
export async function issuePat(
  authority: Authority,
  form: TokenRequest,
  authorization: string | undefined,
): Promise<Answer> {
  const presented = presentedCredential(form, authorization)
  if (form.owner === undefined) refuse('invalid_request', 'Name the owner you ask about in `owner`.')
  const server = await authenticate(authority, form.owner, presented)
  if (server.status === 'pending')
    refuse('authorization_pending', 'Wait until the owner has approved this resource server, then ask again.')
  if (server.status === 'revoked')
    refuse('access_denied', 'The owner has withdrawn this resource server; register again to ask her anew.')
  if (form.scope !== PROTECTION_SCOPE) refuse('invalid_scope', `Ask for the scope ${PROTECTION_SCOPE}.`)
  const now = authority.now()
  const expires_in = authority.limits.patSeconds
  const access_token = signPat(
    {
      iss: authority.issuer,
      sub: server.owner,
      azp: server.client_id,
      scope: PROTECTION_SCOPE,
      jti: newJti('pat_'),
      iat: now,
      exp: now + expires_in,
    },
    authority.keys[0],
  )
  await touchPatIssued(authority.database.db, server.owner, server.client_id)
  return { status: 200, body: { access_token, token_type: 'Bearer', expires_in, scope: PROTECTION_SCOPE } }
}

async function authenticate(
  authority: Authority,
  owner: string,
  presented: Presented,
): Promise<ResourceServerRow> {
  const { db } = authority.database
  const served = await readOwner(db, owner)
  const server = served === undefined ? undefined : await readResourceServer(db, owner, presented.client_id)
  // One comparison in every case, so that time tells nothing of whether the owner or the client exists.
  const known = server?.secret_sha256 ?? Buffer.alloc(32)
  const right = timingSafeEqual(sha256(presented.secret), known)
  if (server === undefined || server.auth !== 'secret' || !right) {
    throw new Refusal(
      'invalid_client',
      'Send the client_id and client_secret recorded for this owner.',
      presented.byHeader ? CHALLENGE : {},
    )
  }
  return server
}

function presentedCredential(form: TokenRequest, authorization: string | undefined): Presented {
  const inForm = form.client_secret
  if (authorization !== undefined) {
    if (inForm !== undefined)
      refuse('invalid_request', 'Send the client secret once: in the form or in Authorization, not in both.')
    const basic = readBasic(authorization)
    if (form.client_id !== undefined && form.client_id !== basic.client_id)
      refuse('invalid_request', 'Send one client_id: the form and Authorization disagree.')
    return basic
  }
  if (form.client_id === undefined || inForm === undefined)
    refuse('invalid_client', 'Send client_id and client_secret, in the form or as HTTP Basic.')
  return { client_id: form.client_id, secret: inForm, byHeader: false }
}

function readBasic(authorization: string): Presented {
  const bad = () =>
    new Refusal(
      'invalid_client',
      'Send HTTP Basic with the form-encoded client_id and client_secret.',
      CHALLENGE,
    )
  const match = /^Basic +([A-Za-z0-9+/]+={0,2})$/i.exec(authorization)
  if (match?.[1] === undefined) throw bad()
  const decoded = Buffer.from(match[1], 'base64').toString('utf8')
  const colon = decoded.indexOf(':')
  if (colon < 0 || decoded.includes('\0')) throw bad()
  try {
    const [client_id, secret] = [decoded.slice(0, colon), decoded.slice(colon + 1)].map(part =>
      decodeURIComponent(part.replaceAll('+', ' ')),
    ) as [string, string]
    return { client_id, secret, byHeader: true }
  } catch {
    throw bad()
  }
}
