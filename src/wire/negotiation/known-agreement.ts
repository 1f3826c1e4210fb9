/**
 * Owns reading an agreement again that was accepted before, known by its hash and by the key that signed it,
 * as a receipt and a waiting item name it. Contract: "Agreement (claim_token, beat 3)" (JWS protected
 * header), "Grant answer (beat 4)".
 */
import { s256 } from '../encoding.ts'
import type { JsonObject } from '../json.ts'
import { parseJws, verifyJws, type UnverifiedJws } from '../signatures/jws.ts'
import { importPublicJwk, type PublicKey } from '../signatures/keys.ts'
import { compactMember, member, objectMember } from '../json-members.ts'
import { TYP } from '../names.ts'
import { refuse } from '../refusal.ts'

/** How it is named: `agreement` is the s256 of the compact JWS, `jkt` the thumbprint of the agent's key. */
export interface NamedAgreement {
  agreement: string
  jkt: string
}

/**
 * The claims of a compact agreement, once its hash, its signature and the key that made it are those that are
 * named. An agent token in its header is only read for its key, not verified: the identity of the agent was
 * checked when the agreement was made, and the token may have expired since. Refuses with `invalid_request`;
 * judges no claim.
 */
export function verifyKnownAgreement(compact: string, { agreement, jkt }: NamedAgreement): JsonObject {
  if (s256(compact) !== agreement) refuse('invalid_request', 'Give the agreement that is named by its hash.')
  const document = parseJws(compact)
  const key = headerKey(document)
  const { payload } = verifyJws(document, key, { typ: TYP.agreement, typOptional: true })
  if (key.thumbprint !== jkt) refuse('invalid_request', 'Name the key that signed the agreement.')
  return payload
}

function headerKey({ header }: UnverifiedJws): PublicKey {
  if (member(header, 'agent_token') === undefined) return importPublicJwk(member(header, 'jwk'))
  const { payload } = parseJws(compactMember(header, 'agent_token'))
  return importPublicJwk(member(objectMember(payload, 'cnf'), 'jwk'))
}
