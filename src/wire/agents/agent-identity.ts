/**
 * Owns who signed: the header of an agreement or introduction, agent tokens, handles, the operator's origin.
 * Contract: "Agreement (claim_token, beat 3)" (JWS protected header), "Connection" (handles),
 * "Authentication" (agent-token issuers); draft-hardt-oauth-aauth-protocol (agent tokens).
 */
import type { JsonObject } from '../json.ts'
import { checkClaims, findByKid, parseJws, timeClaim, verifyJws, type Verified } from '../signatures/jws.ts'
import { thumbprintHandle } from './handles.ts'
import { importPublicJwk, type PublicKey, type PublishedKey } from '../signatures/keys.ts'
import { isPossibleHost } from '../hosts.ts'
import { isLoopbackHost } from '../loopback.ts'
import {
  idMember,
  isHostSpelledPlainly,
  member,
  objectMember,
  optionalText,
  textMember,
} from '../json-members.ts'
import { TYP } from '../names.ts'
import { refuse } from '../refusal.ts'
import { asHandle, type Handle } from '../identifiers.ts'

/**
 * The signer that a header claims. A bare key vouches for itself; a token vouches for nobody until
 * `verifyAgentToken`, and `iss` must be on the list of allowed issuers before anything is fetched from it.
 */
export type ClaimedIdentity =
  | { readonly kind: 'key'; readonly key: PublicKey }
  | {
      readonly kind: 'agent_token'
      readonly token: string
      readonly iss: string
      readonly kid: string | undefined
    }

/** An agent token that its issuer's keys verified. `key` is the agent's, from `cnf.jwk`; `exp` in seconds. */
export interface AgentToken {
  readonly token: string
  readonly iss: string
  readonly sub: string
  readonly jti: string
  readonly exp: number
  readonly key: PublicKey
  readonly parent_agent: string | undefined
}

/** The verified signer: a bare key (pseudonymous), or a verified agent token (identified). */
export type AgentIdentity =
  | { readonly kind: 'key'; readonly key: PublicKey }
  | { readonly kind: 'agent_token'; readonly agent: Verified<AgentToken> }

const DISCOVERY_DOCUMENT = 'aauth-agent.json'
const AGENT_TOKEN_BYTES_MAX = 8192
/** It is part of handles, and an index entry holds two of these. */
const ISSUER_LENGTH_MAX = 512

/**
 * The identity a JWS header claims: exactly one of `jwk` and `agent_token`. Refuses (`invalid_request`) if
 * both or neither are there, if the key cannot be used, or if the token cannot be read.
 */
export function agentIdentity(header: JsonObject): ClaimedIdentity {
  const jwk = member(header, 'jwk')
  const token = member(header, 'agent_token')
  if ((jwk === undefined) === (token === undefined)) {
    refuse('invalid_request', 'Put either jwk or agent_token into the JWS header, one of the two.')
  }
  return token === undefined ? { kind: 'key', key: importPublicJwk(jwk) } : claimedToken(token)
}

/** The issuer, the key id and the text of an `agent_token` header member; nothing is verified yet. */
export function claimedToken(token: unknown): ClaimedIdentity & { kind: 'agent_token' } {
  if (typeof token !== 'string') refuse('invalid_request', 'Give agent_token as a compact JWS.')
  const { header, payload } = parseJws(token, AGENT_TOKEN_BYTES_MAX)
  return {
    kind: 'agent_token',
    token,
    iss: textMember(payload, 'iss'),
    kid: optionalText(header, 'kid'),
  }
}

/**
 * Verifies an agent token against its issuer's published keys, at `now` (seconds): `typ`, `dwk`, signature by
 * the key its `kid` names, `exp` in the future and `iat` in the past (60 s for clocks that differ), a usable
 * `iss`, `sub`, `cnf.jwk`, and `ps` and `parent_agent` if present. The caller checked whether the issuer is
 * listed before it fetched the keys. Refuses with `invalid_request`.
 */
export function verifyAgentToken(
  token: string,
  issuerKeys: readonly PublishedKey[],
  now: number,
): Verified<AgentToken> {
  const expected = { typ: TYP.agentToken, maxBytes: AGENT_TOKEN_BYTES_MAX }
  const { payload } = verifyJws(token, findByKid(issuerKeys), expected)
  checkClaims(payload, { now, requireExp: true })
  if (timeClaim(payload, 'iat') === undefined) refuse('invalid_request', 'Put iat into the agent token.')
  const iss = textMember(payload, 'iss')
  const sub = textMember(payload, 'sub')
  if (!isAgentIssuer(iss)) refuse('invalid_request', 'Name the issuer of the agent token by its https URL.')
  if (!isSubject(sub, iss)) refuse('invalid_request', 'Name the agent in sub by an identifier of its issuer.')
  if (textMember(payload, 'dwk') !== DISCOVERY_DOCUMENT) {
    refuse('invalid_request', `Put dwk ${DISCOVERY_DOCUMENT} into the agent token.`)
  }
  const agent: AgentToken = {
    token,
    iss,
    sub,
    jti: idMember(payload, 'jti'),
    exp: timeClaim(payload, 'exp')!,
    key: importPublicJwk(objectMember(payload, 'cnf')['jwk']),
    parent_agent: readParent(payload, iss),
  }
  checkPersonServer(payload)
  return agent as Verified<AgentToken>
}

/** The key that an identity signs with. */
export function signingKeyOf(identity: AgentIdentity): PublicKey {
  return identity.kind === 'key' ? identity.key : identity.agent.key
}

/**
 * The handle of a connection: `jkt:` + RFC 7638 thumbprint for a bare key, `sub@issuer` (no scheme, no
 * trailing slash) for an identified agent. Agents of two issuers never share a handle, and neither do a bare
 * key and an identified agent.
 */
export function handleOf(identity: AgentIdentity): Handle {
  if (identity.kind === 'key') return thumbprintHandle(identity.key)
  return subjectHandle(identity.agent.sub, identity.agent.iss)
}

/** The handle of an issuer's subject; also what `parent_agent` of a token by that issuer means. */
export function subjectHandle(sub: string, iss: string): Handle {
  return asHandle(`${sub}@${issuerInHandles(iss)}`)
}

/**
 * An issuer as its agents' handles spell it. Two listed issuers must differ in this, because otherwise they
 * would share handles.
 */
export function issuerInHandles(iss: string): string {
  return iss.replace(/^https?:\/\//, '').replace(/\/$/, '')
}

/**
 * The operator behind a client_id: the origin of that URL; undefined if the text is no client identity URL
 * (https, or http to a literal loopback host; a path; a host that may stand in DNS, without a dot at its end;
 * no user information, fragment or dot segments).
 */
export function operatorOrigin(client_id: string): string | undefined {
  if (!/^https?:\/\/[\x21-\x7e]+$/.test(client_id) || !URL.canParse(client_id)) return undefined
  const url = new URL(client_id)
  const reachable = url.protocol === 'https:' || isLoopbackHost(url.hostname)
  // With the dot of the root, the host is the same, but the origin differs from the one that an owner
  // blocked.
  if (!isHostSpelledPlainly(client_id)) return undefined
  if (!isPossibleHost(url.hostname)) return undefined
  // If the parser had to change it (dot segments, `\`, a missing path, upper case), it is not the URL that
  // was signed.
  return reachable && url.href === client_id && url.username === '' && url.password === '' && url.hash === ''
    ? url.origin
    : undefined
}

/**
 * Whether a text is an agent-token issuer: an https URL (or http to a literal loopback host, which only
 * development lists) in one spelling, without user information, query or fragment.
 */
export function isAgentIssuer(iss: string): boolean {
  // No `@` is allowed anywhere: with one in the path, two issuers could make the same handle.
  if (!/^https?:\/\/[\x21-\x7e]+$/.test(iss) || /[@?#\\]/.test(iss) || !URL.canParse(iss)) return false
  const { href, protocol, hostname } = new URL(iss)
  if (protocol !== 'https:' && !isLoopbackHost(hostname)) return false
  if (iss.length > ISSUER_LENGTH_MAX || !isPossibleHost(hostname)) return false
  return href === iss || href === `${iss}/`
}

/** Whether a text is an AAuth server identifier: https and only a lower-case host. */
export function isServerIdentifier(text: string): boolean {
  return /^https:\/\/[a-z0-9-]+(?:\.[a-z0-9-]+)*$/.test(text) && isAgentIssuer(text)
}

/** Whether a text is an AAuth agent identifier, `aauth:local@domain`. */
export function isAgentIdentifier(text: string): boolean {
  const [, domain] = /^aauth:[a-z0-9_.+-]{1,255}@([^@]+)$/.exec(text) ?? []
  return domain !== undefined && isServerIdentifier(`https://${domain}`)
}

/**
 * Whether an issuer may give an agent this name: at most 255 characters of printable ASCII without blanks. A
 * name that says it is an AAuth identifier must be one, of the issuer's own domain.
 */
function isSubject(sub: string, iss: string): boolean {
  if (!/^[\x21-\x7e]{1,255}$/.test(sub)) return false
  if (!sub.startsWith('aauth:')) return true
  return isAgentIdentifier(sub) && sub.slice(sub.indexOf('@') + 1) === new URL(iss).host
}

function readParent(payload: JsonObject, iss: string): string | undefined {
  const parent = optionalText(payload, 'parent_agent')
  if (parent !== undefined && (!isSubject(parent, iss) || parent === payload['sub'])) {
    refuse('invalid_request', 'Name in parent_agent another agent of the same issuer.')
  }
  return parent
}

/**
 * Informative only: neither called nor trusted. But a malformed one shows that the token is not what it
 * seems.
 */
function checkPersonServer(payload: JsonObject): void {
  const ps = optionalText(payload, 'ps')
  if (ps !== undefined && !isServerIdentifier(ps)) {
    refuse('invalid_request', 'Give ps as https and a host alone.')
  }
}
