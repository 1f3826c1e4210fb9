/**
 * The issuers of agent tokens that this deployment trusts: a token is verified against the keys its issuer
 * publishes, and nothing is fetched from an issuer that is not listed.
 * Contract: "Authentication" (agent-token issuers), "Agreement (claim_token, beat 3)" (`agent_token`).
 */
import type { RemoteDocument, RemoteDocuments } from '../../http/outbound/remote-documents.ts'
import { verifyAgentToken, type AgentToken, type ClaimedIdentity } from '../../wire/agents/agent-identity.ts'
import { NAMED_KEYS_BYTES_MAX } from '../../wire/document-bounds.ts'
import type { Json } from '../../wire/json.ts'
import type { Verified } from '../../wire/signatures/jws.ts'
import { parseJwks } from '../../wire/signatures/keys.ts'
import { issuerDocumentUrl, readIssuerDocument } from '../../wire/agents/operator-documents.ts'
import { Refusal } from '../../wire/refusal.ts'

export interface AgentIssuers {
  /** Whether an issuer is on the list, byte for byte. */
  lists(iss: string): boolean
  /**
   * Verifies an agent token, waiting for its issuer's keys until `deadline` (ms since the epoch). Throws
   * `invalid_request` if the issuer is not listed (before anything is fetched) or the token is invalid, and
   * `temporarily_unavailable` if its issuer's keys cannot be had, because its documents cannot be fetched,
   * are too large or are none: only keys that were read can refuse a token.
   */
  verify(claimed: ClaimedIdentity & { kind: 'agent_token' }, deadline: number): Promise<Verified<AgentToken>>
}

/** `documents` keeps what issuers publish; `now` is in seconds. */
export function createAgentIssuers(
  listed: readonly string[],
  documents: RemoteDocuments,
  now: () => number,
): AgentIssuers {
  const issuers: ReadonlySet<string> = new Set(listed)
  const read = (url: string, holds: (json: Json) => boolean, deadline: number) =>
    documents.read(url, { holds, deadline, favoured: true, bytesMax: NAMED_KEYS_BYTES_MAX })
  return {
    lists: iss => issuers.has(iss),
    verify: async ({ token, iss, kid }, deadline) => {
      if (!issuers.has(iss))
        throw new Refusal(
          'invalid_request',
          'agent_token: its issuer is not accepted here; use one that is, or sign with a bare key (jwk).',
        )
      const found = await read(issuerDocumentUrl(iss), json => isOf(json, iss), deadline)
      const jwksUri = had(found, "the issuer's document", json => readIssuerDocument(json, iss))
      const keys = await read(jwksUri, json => kid === undefined || holdsKid(json, kid), deadline)
      return verifyAgentToken(token, had(keys, 'the key set of its issuer', parseJwks), now())
    },
  }
}

function had<T>(document: RemoteDocument, what: string, read: (json: Json) => T): T {
  if (!('json' in document)) {
    // Waiting makes it no smaller, so the issuer has to hear of it. Still nothing was read that could refuse.
    if (document.reason === 'too_large')
      throw unread(
        `${what} is larger than ${NAMED_KEYS_BYTES_MAX} bytes, and is not read; have its issuer publish a smaller one`,
      )
    throw unread(`${what} ${document.missing}`)
  }
  try {
    return read(document.json)
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    throw unread(`${what} is none: ${error.detail}`, error)
  }
}

function unread(why: string, cause?: unknown): Refusal {
  return new Refusal('temporarily_unavailable', `agent_token: ${why}; try again later.`, { cause })
}

function isOf(json: Json, iss: string): boolean {
  try {
    return readIssuerDocument(json, iss) !== ''
  } catch {
    return false
  }
}

function holdsKid(json: Json, kid: string): boolean {
  try {
    return parseJwks(json).some(key => key.kid === kid)
  } catch {
    return false
  }
}
