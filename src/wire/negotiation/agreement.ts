/**
 * Owns the agreement that an agent signs, and the claim_token that carries it. Contract: "Agreement
 * (claim_token, beat 3)". This file checks who signed and that nothing was changed since; rules/agreement.ts
 * judges the claims. Receipts that embed it are receipt.ts.
 */
import { agentIdentity, operatorOrigin, signingKeyOf, type AgentIdentity } from '../agents/agent-identity.ts'
import { decodeBase64url, encodeBase64url, s256 } from '../encoding.ts'
import type { Json, JsonObject } from '../json.ts'
import { parseJws, signJws, verifyJws, type UnverifiedJws, type Verified } from '../signatures/jws.ts'
import type { PrivateKey, PublicKey } from '../signatures/keys.ts'
import { isWebUrl, optionalText } from '../json-members.ts'
import { AGENT_ISSUER_PREFIX, TYP } from '../names.ts'
import { refuse } from '../refusal.ts'
import type { TermsTemplate } from './terms.ts'

export { signReceipt, type Receipt, type ReceiptClaims } from './receipt.ts'

/** Longest claim_token, in bytes. */
export const CLAIM_TOKEN_BYTES_MAX = 32 * 1024

/** An agent's reference to its mission: a claim, recorded and never fetched. */
export type Mission = { approver: string; s256: string }

/**
 * The claims that an agent signs. `iat` in seconds; `template` is repeated unchanged, so a caller that
 * narrows it must do so before.
 */
export interface AgreementContent {
  template: TermsTemplate
  aud: string
  iat: number
  reason?: string | undefined
  mission?: Mission | undefined
  /**
   * The tool and its arguments, or the name of a tool that is called without arguments; needed if the
   * template says `per_operation`.
   */
  operation?: { tool: string; params: JsonObject } | string | undefined
  introduction?: string | undefined
  /** What the program that uses the agent calls itself; ours, and a claim like the reason. */
  client_name?: string | undefined
  /** The agent made exactly this request before, and never received the answer. */
  answer_lost?: true | undefined
  /** The agent token, sent in the header in place of the bare key. */
  agent_token?: string | undefined
  client_id?: string | undefined
  signature_agent?: string | undefined
}

/**
 * An agreement signed by `key`. `claims` are the payload as signed: no member's type is trusted yet. `hash`
 * is the grant's `contract`: s256 of the compact JWS.
 */
export interface Agreement {
  readonly claims: JsonObject
  readonly compact: string
  readonly hash: string
  readonly key: PublicKey
  readonly identity: AgentIdentity
  /**
   * URL of the operator's client document, and the URL of its key directory; these are claims that nobody has
   * resolved yet.
   */
  readonly client_id: string | undefined
  readonly signature_agent: string | undefined
}

/**
 * The claim_token of an agreement: base64url of the whole compact JWS, `iss` being `agent:` + the key's
 * thumbprint.
 */
export function signAgreement(content: AgreementContent, key: PrivateKey): string {
  return encodeBase64url(signJws({ typ: TYP.agreement, kid: false, ...agreementParts(content, key) }, key))
}

/**
 * The compact JWS inside a claim_token, and its parts, not verified yet. Refuses (`invalid_request`) more
 * than 32 KiB, another spelling of the same bytes, and anything that is no compact JWS.
 */
export function openClaimToken(claim_token: string): UnverifiedJws {
  if (claim_token.length > CLAIM_TOKEN_BYTES_MAX) {
    refuse('invalid_request', `Keep claim_token within ${CLAIM_TOKEN_BYTES_MAX} bytes.`)
  }
  return parseJws(decodeBase64url(claim_token).toString('latin1'))
}

/** The agreement hash of a claim_token, `s256:…` over the compact JWS inside (RPT claim `contract`). */
export function agreementHash(claim_token: string): string {
  return s256(decodeBase64url(claim_token))
}

/**
 * Verifies who signed a claim_token: `typ` if present, header, signature. `identity` is the verified identity
 * of the header. A bare key needs none, because it vouches for itself; an agent token without it is refused.
 * Refuses with `invalid_request`; judges no claim.
 */
export function verifyAgreement(
  claim_token: string | UnverifiedJws,
  identity?: AgentIdentity,
): Verified<Agreement> {
  const document = typeof claim_token === 'string' ? openClaimToken(claim_token) : claim_token
  const { header, compact } = document
  const signer = confirmIdentity(header, identity)
  const key = signingKeyOf(signer)
  const { payload } = verifyJws(document, key, { typ: TYP.agreement, typOptional: true })
  const agreement: Agreement = {
    claims: payload,
    compact,
    hash: s256(compact),
    key,
    identity: signer,
    client_id: readClientId(header),
    signature_agent: readSignatureAgent(header),
  }
  return agreement as Verified<Agreement>
}

function agreementParts(
  content: AgreementContent,
  key: PrivateKey,
): { header: JsonObject; payload: JsonObject } {
  const { template, aud, iat, reason, mission, operation, introduction, answer_lost } = content
  const { client_name, agent_token, client_id, signature_agent } = content
  return {
    header: present({
      ...(agent_token === undefined ? { jwk: { ...key.jwk } } : { agent_token }),
      client_id,
      signature_agent,
    }),
    payload: present({
      iss: `${AGENT_ISSUER_PREFIX}${key.thumbprint}`,
      aud,
      iat,
      ...template,
      reason,
      mission,
      operation,
      introduction,
      client_name,
      answer_lost,
    }),
  }
}

/** Without the members that are undefined. */
function present(members: Record<string, Json | undefined>): JsonObject {
  return Object.fromEntries(
    Object.entries(members).filter((entry): entry is [string, Json] => entry[1] !== undefined),
  )
}

/** The identity in the header must be exactly the verified one. */
function confirmIdentity(header: JsonObject, identity: AgentIdentity | undefined): AgentIdentity {
  const claimed = agentIdentity(header)
  if (claimed.kind === 'key') {
    if (identity === undefined) return claimed
    const same = identity.kind === 'key' && identity.key.thumbprint === claimed.key.thumbprint
    return same ? identity : refuse('invalid_request', 'Sign the agreement with the key in its header.')
  }
  if (identity?.kind !== 'agent_token' || identity.agent.token !== claimed.token) {
    refuse('invalid_request', 'Use an agent token of an issuer that is accepted here, or a bare key.')
  }
  return identity
}

function readClientId(header: JsonObject): string | undefined {
  const client_id = optionalText(header, 'client_id')
  if (client_id !== undefined && operatorOrigin(client_id) === undefined) {
    refuse(
      'invalid_request',
      'Give client_id as an https URL with a path, in its normal spelling, or leave it out.',
    )
  }
  return client_id
}

function readSignatureAgent(header: JsonObject): string | undefined {
  const signature_agent = optionalText(header, 'signature_agent')
  if (signature_agent !== undefined && !isWebUrl(signature_agent)) {
    refuse('invalid_request', 'Give signature_agent as an https URL, or leave it out.')
  }
  return signature_agent
}
