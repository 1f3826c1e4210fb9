/**
 * Which authorization server speaks for a member: one whose owners may join, by an RFC 9421 signature with a
 * key that it publishes. Contract: "The organization's authority" (`/member/*`), "Authentication" (published
 * keys, never a shared secret).
 */
import type { FastifyRequest } from 'fastify'
import { z } from 'zod'
import { OutboundFault } from '../../http/outbound/outbound.ts'
import { plainText } from '../../http/servers/pages.ts'
import { verifyByPublishedKeys } from '../../http/servers/published-keys.ts'
import { signedMessage } from '../../http/servers/signed-request.ts'
import { spendSignature } from '../../storage/organization/activity.ts'
import type { Tx } from '../../storage/organization/database.ts'
import {
  MARK_RETENTION_SECONDS,
  signatureDigest,
  type VerifiedSignature,
} from '../../wire/signatures/http-signature.ts'
import { asOwner } from '../../wire/identifiers.ts'
import { AUTHORITY_PATH, NAME_PATTERN } from '../../wire/names.ts'
import { refuse, unavailable } from '../../wire/refusal.ts'
import type { Organization } from '../context.ts'

/**
 * The subject of a request: an owner, and the authorization server that serves her and that must have signed
 * it.
 */
export const PERSON = {
  owner: z.string().regex(NAME_PATTERN, 'give the name of an owner').transform(asOwner),
  as_uri: plainText(512),
}

/**
 * The signature of an authority on this request. Refuses 403 if its owners may not join (nothing is then
 * fetched from it); 401 `invalid_token` if none of its published keys signed; 503 if its keys cannot be
 * fetched.
 */
export async function provenAuthority(
  organization: Organization,
  request: FastifyRequest,
  as_uri: string,
): Promise<VerifiedSignature> {
  const { authorities, authorityKeys } = organization
  if (!authorities.includes(as_uri))
    refuse(
      'request_denied',
      'Ask the organization to list your authorization server: its owners may not join.',
    )
  const url = as_uri + AUTHORITY_PATH.jwks
  const source = { keys: () => authorityKeys.keys(url), find: (kid: string) => authorityKeys.find(url, kid) }
  try {
    const message = signedMessage(request, organization.base)
    return await verifyByPublishedKeys(message, source, { now: organization.now() })
  } catch (cause) {
    if (!(cause instanceof OutboundFault)) throw cause
    throw unavailable('Try again shortly: the keys of your server cannot be fetched.', 5, cause)
  }
}

/**
 * Marks a signature as presented, in the transaction of what it changes. Refuses if it was presented before:
 * with 401, unless another refusal is given.
 */
export async function spendOnce(
  tx: Tx,
  verified: VerifiedSignature,
  code: 'invalid_token' | 'conflict' = 'invalid_token',
): Promise<void> {
  if (!(await spendSignature(tx, signatureDigest(verified), MARK_RETENTION_SECONDS)))
    refuse(code, 'Sign again, with a fresh nonce: this signature was presented before.')
}
