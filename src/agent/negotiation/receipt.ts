/**
 * Owns what the agent checks before it keeps a grant. Contract: "Grant answer (beat 4)", "RPT claims": the
 * receipt contains the agreement that this agent signed, and the grant is bound to the key that will use it.
 */
import { s256Json } from '../../wire/encoding.ts'
import type { JsonObject } from '../../wire/json.ts'
import type { PublishedKey } from '../../wire/signatures/keys.ts'
import { member } from '../../wire/json-members.ts'
import type { GrantAnswer } from '../../wire/negotiation/negotiation.ts'
import { verifyReceipt, type Receipt } from '../../wire/negotiation/receipt.ts'
import { tagOfOrigin } from '../../wire/ledger/ledger-head.ts'
import { ticketTag } from '../../wire/negotiation/ticket.ts'
import { Refusal } from '../../wire/refusal.ts'
import type { TermsTemplate } from '../../wire/negotiation/terms.ts'
import { verifyRpt, type RptClaims } from '../../wire/negotiation/tokens.ts'
import { fail, reading, receivedSentence } from '../agent-error.ts'
import { needName, toolOf, type ToolCall } from '../transports/mcp.ts'
import type { AuthorityMetadata, Directory } from './metadata.ts'
import type { Profile } from '../profile.ts'
import type { Grant, StoredReceipt } from '../store.ts'

/** An agreement of ours: what was sent, the compact JWS inside, its hash, and what it agrees to. */
export interface SignedAgreement {
  claimToken: string
  compact: string
  contract: string
  template: TermsTemplate
  operation: { tool: string; params: JsonObject } | undefined
}

/** A grant and its receipt, verified and, except for a single-use grant, kept. */
export interface Accepted {
  grant: Grant
  receipt: StoredReceipt
}

interface GrantContext {
  profile: Profile
  directory: Directory
  authority: AuthorityMetadata
  /** The tickets of this negotiation, in their order. */
  used: ReadonlySet<string>
  request: {
    resource: string
    call: ToolCall
    /** The owner whom the grant must name; any if left out. */
    owner?: string | undefined
    signal?: AbortSignal | undefined
  }
}

/**
 * Verifies a grant and its receipt and keeps them: both under the authority's published keys; the receipt
 * embeds the agreement just signed, or an earlier one of our own key for the same template, resource and
 * operation (a request that waited already is joined); hash, family, terms, `jti` and, where the receipt
 * names one, owner agree between the two; the head of a ledger in the receipt is of the owner whose ticket
 * (the first of the negotiation) was presented; the RPT is of the owner whom the request names, if it names
 * one, for this resource, and bound to our key. A single-use grant is returned but not kept. Fails with
 * `grant_untrusted`.
 */
export async function acceptGrant(
  context: GrantContext,
  granted: { answer: GrantAnswer; signed: SignedAgreement },
): Promise<Accepted> {
  const { profile, request } = context
  const { receipt, claims } = await verifyBoth(context, granted.answer)
  if (request.owner !== undefined && claims.owner !== request.owner)
    fail(
      'grant_untrusted',
      `The grant is ${claims.owner}'s, and the resource said that it is ${request.owner}'s.`,
    )
  checkReceipt(receipt, granted.signed, profile)
  checkHead(receipt, context)
  checkRpt(claims, { receipt, signed: granted.signed, profile })
  const accepted = toKeep(context, { ...granted, receipt, claims })
  await profile.store.keepReceipt(accepted.receipt)
  await profile.store.keepNeed({
    resource: request.resource,
    tool: needName(request.call),
    resource_id: granted.signed.template.resource_id,
    scopes: permitted(claims, granted.signed.template.resource_id),
  })
  if (!accepted.grant.single_use) await profile.store.keepGrant(accepted.grant)
  profile.tell({ type: 'granted', grant: accepted.grant, receipt: accepted.receipt.receipt })
  return accepted
}

interface VerifiedGrant {
  receipt: Receipt
  claims: RptClaims
}

/** Checks signatures, kinds, issuer, audience and times; fetches keys again if the known ones do not fit. */
async function verifyBoth(context: GrantContext, answer: GrantAnswer): Promise<VerifiedGrant> {
  const { directory, authority, request, profile } = context
  const issuer = authority.issuer
  const verify = (keys: PublishedKey[]): VerifiedGrant => {
    // Keys may have been waited for, and the grant may have ended meanwhile.
    const now = profile.now()
    const claims = verifyRpt(answer.access_token, keys, { issuer, now })
    if (claims.aud !== request.resource) fail('grant_untrusted', otherAddress(claims.aud, request.resource))
    // Not every authority names the owner in a receipt, but each does in the grant that it came with.
    return { receipt: verifyReceipt(answer.receipt, keys, { issuer, now, owner: claims.owner }), claims }
  }
  const keysOf = (fresh: boolean): Promise<PublishedKey[]> =>
    directory.keysOf(authority, { fresh, signal: request.signal })
  try {
    return verify(await keysOf(false))
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
  }
  const fresh = await keysOf(true)
  return reading('grant_untrusted', 'The grant or its receipt does not verify', () => verify(fresh))
}

/** It is no fault of the agent, so the sentence says who can mend it. */
function otherAddress(aud: string, resource: string): string {
  const granted = receivedSentence(aud, 'another address')
  return `The grant is for ${granted}, and ${resource} was called: the authority has this resource under another address than the one called. Tell whoever runs the server.`
}

function checkReceipt({ claims, agreementClaims }: Receipt, signed: SignedAgreement, profile: Profile): void {
  const { template, contract } = signed
  if (claims.cnf.jkt !== profile.key.thumbprint) {
    fail('grant_untrusted', 'The receipt embeds an agreement that another key has signed.')
  }
  if (claims.terms_uri !== template.terms_uri || claims.template_id !== template.template_id) {
    fail('grant_untrusted', 'The receipt is about other terms than those that were signed.')
  }
  if (claims.resource_id !== template.resource_id) {
    fail('grant_untrusted', 'The receipt is for another resource than the one that was agreed on.')
  }
  if (claims.agreement === contract) return
  // An earlier request of ours for exactly this was still waiting, and this one joined it.
  const same =
    member(agreementClaims, 'resource_id') === template.resource_id &&
    member(agreementClaims, 'aud') === template.proffered_by &&
    operationHash(member(agreementClaims, 'operation')) === operationHash(signed.operation)
  if (!same) fail('grant_untrusted', 'The receipt embeds another agreement than the one that was signed.')
}

/**
 * A ledger has one origin at its authority, which names the owner by her routing tag, and so does her ticket.
 * A head with another one says nothing of the ledger that this agreement was entered in.
 */
function checkHead(
  { claims: { ledger_head } }: Receipt,
  { authority, used }: Pick<GrantContext, 'authority' | 'used'>,
): void {
  if (ledger_head === undefined) return
  const [ticket = ''] = used
  const tag = ticketTag(ticket)
  // Not every authority's tickets have one.
  if (tag === undefined || tagOfOrigin(ledger_head.origin, authority.issuer) === tag) return
  fail(
    'grant_untrusted',
    `The receipt has the head of ${ledger_head.origin}, which is not the ledger of the owner whose ticket was presented, so the grant was not taken.`,
  )
}

function checkRpt(
  claims: RptClaims,
  basis: { receipt: Receipt; signed: SignedAgreement; profile: Profile },
): void {
  const { receipt, signed, profile } = basis
  if (claims.cnf.jwk.x !== profile.key.x) fail('grant_untrusted', 'The grant is bound to another key.')
  if (claims.contract !== receipt.claims.agreement)
    fail('grant_untrusted', 'Grant and receipt are about different agreements.')
  if (claims.jti !== receipt.claims.rpt) fail('grant_untrusted', 'The receipt is for another grant.')
  if (claims.family !== receipt.claims.family || claims.owner !== receipt.claims.owner) {
    fail('grant_untrusted', 'Grant and receipt name different negotiations or owners.')
  }
  if (permitted(claims, signed.template.resource_id).length === 0) {
    fail('grant_untrusted', 'The grant permits nothing of what was agreed.')
  }
  const { operation } = claims
  if (!operation) return
  const params_s256 = s256Json(signed.operation?.params ?? {})
  if (operation.tool !== signed.operation?.tool || operation.params_s256 !== params_s256) {
    fail('grant_untrusted', 'The grant is for another operation than the one that was signed.')
  }
}

function toKeep(
  { authority, request, profile }: GrantContext,
  granted: VerifiedGrant & { answer: GrantAnswer; signed: SignedAgreement },
): Accepted {
  const { answer, claims, receipt } = granted
  const { family, owner, jti, contract } = claims
  const { resource, call } = request
  const as_uri = authority.issuer
  return {
    grant: {
      access_token: answer.access_token,
      jti,
      resource,
      as_uri,
      family,
      permissions: claims.permissions.map(({ resource_id, resource_scopes }) => ({
        resource_id,
        resource_scopes,
      })),
      exp: Math.min(claims.exp, ...claims.permissions.map(permission => permission.exp)),
      contract,
      single_use: claims.single_use === true,
    },
    receipt: {
      receipt: answer.receipt,
      family,
      contract,
      owner,
      as_uri,
      resource,
      tool: toolOf(call),
      template_id: receipt.claims.template_id,
      terms_uri: receipt.claims.terms_uri,
      rpt: jti,
      at: profile.now(),
    },
  }
}

/** The scopes that a grant permits on a resource. */
function permitted(claims: RptClaims, resource_id: string): string[] {
  return claims.permissions.filter(one => one.resource_id === resource_id).flatMap(one => one.resource_scopes)
}

/** An operation by value: a string is a tool without arguments. */
function operationHash(operation: unknown): string {
  if (operation === undefined) return ''
  if (typeof operation === 'string') return s256Json({ tool: operation, params: {} })
  const { tool, params = {} } = operation as { tool: string; params?: JsonObject }
  return s256Json({ tool, params })
}
