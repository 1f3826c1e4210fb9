/**
 * Owns the introduction of a sibling agent (`ext-introduction-v1+jws`). Contract: "Owner API": introduction
 * of a sibling agent; it travels as the claim `introduction` of the newcomer's agreement. Whether the
 * introducer may introduce is decided by the authorization server.
 */
import {
  agentIdentity,
  claimedToken,
  signingKeyOf,
  type AgentIdentity,
  type ClaimedIdentity,
} from './agent-identity.ts'
import { thumbprintHandle } from './handles.ts'
import type { JsonObject } from '../json.ts'
import { checkClaims, parseJws, signJws, timeClaim, verifyJws, type Verified } from '../signatures/jws.ts'
import { importPublicJwk, type PrivateKey, type PublicKey } from '../signatures/keys.ts'
import { idMember, member, textMember } from '../json-members.ts'
import { TYP } from '../names.ts'
import { refuse } from '../refusal.ts'

const INTRODUCTION_BYTES_MAX = 4096
export const INTRODUCTION_SECONDS_MAX = 300

/** A verified introduction: who introduces, the newcomer's key, and its times in seconds. */
export interface Introduction {
  readonly introducer: AgentIdentity
  readonly newcomer: PublicKey
  readonly jti: string
  readonly iat: number
  readonly exp: number
}

/**
 * The signed content: the newcomer's key, the authorization server, times in seconds, the introducer's own
 * agent token.
 */
export interface IntroductionContent {
  newcomer: PublicKey
  aud: string
  iat: number
  exp: number
  jti: string
  agent_token?: string | undefined
}

/**
 * The compact introduction; its header carries the introducer's `jwk`, and its agent token if it has one.
 */
export function signIntroduction(content: IntroductionContent, key: PrivateKey): string {
  const { newcomer, aud, iat, exp, jti, agent_token } = content
  return signJws(
    {
      typ: TYP.introduction,
      kid: false,
      header: { jwk: key.jwk, ...(agent_token === undefined ? {} : { agent_token }) },
      payload: { sub: newcomer.thumbprint, aud, iat, exp, jti },
    },
    key,
  )
}

/**
 * The introducer that an introduction claims, not verified yet: its agent token if there is one, otherwise
 * its bare key. Refuses (`invalid_request`) a text over 4096 bytes, one that is no compact JWS, and one
 * without `jwk`.
 */
export function introducerOf(introduction: unknown): ClaimedIdentity {
  if (typeof introduction !== 'string') refuse('invalid_request', 'Give introduction as a compact JWS.')
  const { header } = parseJws(introduction, INTRODUCTION_BYTES_MAX)
  const { agent_token, ...bare } = header
  const identity = agentIdentity(bare)
  return agent_token === undefined ? identity : claimedToken(agent_token)
}

/**
 * Verifies an introduction of `newcomer` to `aud` by `introducer`, at `now` (seconds): `typ` (or `typAlias`),
 * the introducer's key or agent token in the header, signature, `aud`, `sub` (thumbprint of the newcomer's
 * key, bare or as `jkt:` handle), `iat`, and an `exp` at most 300 s ahead. Refuses with `invalid_request`.
 */
export function verifyIntroduction(
  introduction: string,
  introducer: AgentIdentity,
  expected: { newcomer: PublicKey; aud: string; now: number; typAlias?: string | undefined },
): Verified<Introduction> {
  const { newcomer, aud, now, typAlias } = expected
  const key = signingKeyOf(introducer)
  const document = parseJws(introduction, INTRODUCTION_BYTES_MAX)
  checkIntroducer(document.header, introducer)
  const { payload } = verifyJws(document, key, { typ: TYP.introduction, typAlias })
  checkClaims(payload, { aud, now, requireExp: true })
  const sub = textMember(payload, 'sub')
  if (sub !== newcomer.thumbprint && sub !== thumbprintHandle(newcomer)) {
    refuse('invalid_request', 'Introduce the key that signs the agreement, by its thumbprint in sub.')
  }
  const exp = timeClaim(payload, 'exp')!
  const iat = timeClaim(payload, 'iat')
  if (iat === undefined || exp > now + INTRODUCTION_SECONDS_MAX) {
    refuse(
      'invalid_request',
      `Put iat into the introduction, and an exp at most ${INTRODUCTION_SECONDS_MAX} s ahead.`,
    )
  }
  const verified: Introduction = { introducer, newcomer, jti: idMember(payload, 'jti'), iat, exp }
  return verified as Verified<Introduction>
}

/**
 * The header must carry exactly the identity that was verified: a token may not be left out to pass as a bare
 * key.
 */
function checkIntroducer(header: JsonObject, introducer: AgentIdentity): void {
  const token = introducer.kind === 'agent_token' ? introducer.agent.token : undefined
  const { thumbprint } = importPublicJwk(member(header, 'jwk'))
  if (member(header, 'agent_token') !== token || thumbprint !== signingKeyOf(introducer).thumbprint) {
    refuse('invalid_request', 'Sign the introduction with the key of the agent that introduces.')
  }
}
