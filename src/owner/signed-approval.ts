/**
 * Owns what a person's approval at her terminal is bound to: the record of exactly the item that she was
 * shown, and her device key's signature over it. Contract: "Owner API" (`/owner/pending/{family}/decision`).
 */
import { randomBytes } from 'node:crypto'
import { ApiError } from '../client/api-error.ts'
import type { ApiAccess } from '../client/signed-fetch.ts'
import { admissionIn, isFirstContact } from '../rules/owner-statement.ts'
import { itemDigest, type DecisionItem } from '../wire/owner/decision-item.ts'
import { signStatement } from '../wire/owner/decision-statement.ts'
import { s256Json } from '../wire/encoding.ts'
import type { Json } from '../wire/json.ts'
import type { PendingItem } from '../wire/owner/owner-api.ts'

/** The additions to a decision. */
export interface BoundBy {
  item_s256?: string
  statement?: string
  /** A first contact is let in only for its tier; an operation is approved, and nothing at its tier. */
  only?: true
}

/**
 * Binds an approval to the item as it was shown: by its hash, and, if she decides by a device key, by a
 * statement over that, made at `now` (seconds). Empty if the authority gives no record. Fails with
 * `answer_untrusted` if the record differs from what was shown, so that nobody signs something that she has
 * not seen.
 */
export function boundApproval(
  access: ApiAccess,
  shown: PendingItem,
  { now, only = false }: { now: number; only?: boolean },
): BoundBy {
  const item = shown.item as DecisionItem | undefined
  const further: BoundBy = only ? { only: true } : {}
  if (item === undefined) return further
  const item_s256 = itemDigest(item)
  const differing = differenceOf(shown, item, item_s256)
  if (differing !== undefined)
    throw new ApiError(
      'answer_untrusted',
      `What you were shown and what you would sign differ in ${differing}: nothing was decided. Tell the operator of the authority.`,
    )
  if (access.key === undefined) return { item_s256, ...further }
  const { owner, family, single_use, expires_in } = item
  const content = {
    aud: access.issuer,
    owner,
    family,
    decision: 'approved' as const,
    item_s256,
    admits: admissionIn({ decision: 'approved', isFirstContact: isFirstContact(item), only }),
    single_use,
    expires_in,
    iat: now,
    jti: `dec_${randomBytes(16).toString('base64url')}`,
  }
  return { item_s256, statement: signStatement(content, access.key), ...further }
}

/** The first shown member that differs from the record. */
function differenceOf(shown: PendingItem, item: DecisionItem, digest: string): string | undefined {
  const { operation, terms } = item
  const { enforced = {}, identity } = shown as Partial<PendingItem>
  const pairs: [name: string, shown: unknown, signed: unknown][] = [
    ['hash', shown.item_s256, digest],
    ['family', shown.family, item.family],
    ['kind', shown.kind, item.kind],
    ['account', shown.account, item.account],
    ['agent', shown.handle, item.agent.handle],
    ['resource', shown.resource_id, item.resource_id],
    ['tier', shown.tier, item.tier],
    ['purpose', shown.purpose, terms.purpose],
    ['prohibited', shown.prohibited, terms.prohibited],
    ['operation', shown.operation, operation],
    ['life', shown.expires_in, item.expires_in],
    ['why it waits', shown.because, item.because],
    ['what it opens', shown.opens, item.opens],
    ['scope', enforced['scope'], item.scopes],
    ['enforced life', enforced['expires_in'], item.expires_in],
    ['how often it is used', enforced['single_use'], item.single_use],
    ['identity', identity?.kind, item.agent.identity],
    ['operator', identity?.operator, item.operator?.origin],
    ['assurance', shown.assurance, item.assurance],
    ['organization', shown.organization, item.organization],
    ['co-holders', shown.holders, item.holders],
    ['how many it takes', shown.rule, item.rule],
  ]
  return pairs.find(([, one, other]) => s256Json(jsonOf(one)) !== s256Json(jsonOf(other)))?.[0]
}

function jsonOf(value: unknown): Json {
  return (value ?? null) as Json
}
