/**
 * Owns what the page sends as her decision: the very record that was shown, by its hash, and her signature
 * over it, if the page has a key. Contract: "Owner API" (`/owner/pending/{family}/decision`).
 */
import { admissionIn, isFirstContact } from '../rules/owner-statement.ts'
import type { DecisionItem } from '../wire/owner/decision-item.ts'
import { canonicalize } from '../wire/json.ts'
import { TYP } from '../wire/names.ts'
import type { DecisionRecord } from '../wire/owner/owner-api.ts'
import type { Passkey } from '../wire/owner/owner-credentials.ts'
import { statementClaims, type StatementClaims } from '../wire/owner/statement-claims.ts'
import { ask, nowOf, type Access } from './access/api.ts'
import { base64url, randomText, s256 } from './bytes.ts'
import { sign, type BrowserKey } from './access/device-key.ts'
import { signByPasskey } from './access/passkey.ts'
import { passkeyThumbprint } from './access/passkey-statement.ts'

/**
 * How she approves: a first contact only for its tier, an operation only this once (`only`); or signed by a
 * passkey in place of this browser's key.
 */
export interface How {
  only?: boolean
  passkey?: Passkey | undefined
}

/** Approves what was shown, signed. */
export async function approve(access: Access, item: DecisionItem, how: How = {}): Promise<DecisionRecord> {
  return post(access, item.family, await approvalOf(access, item, how))
}

/** Approves several of them, all or none. */
export async function approveAll(access: Access, items: readonly DecisionItem[]): Promise<DecisionRecord[]> {
  const decisions = await Promise.all(
    items.map(async item => ({ family: item.family, ...(await approvalOf(access, item)) })),
  )
  return postAll(access, decisions)
}

/** Denies it; the agent reads the reason. */
export async function deny(access: Access, item: DecisionItem, reason: string): Promise<DecisionRecord> {
  return post(access, item.family, await denialOf(item, reason))
}

/** Denies several of them, all or none; each agent reads the reason. */
export async function denyAll(
  access: Access,
  items: readonly DecisionItem[],
  reason: string,
): Promise<DecisionRecord[]> {
  const decisions = await Promise.all(
    items.map(async item => ({ family: item.family, ...(await denialOf(item, reason)) })),
  )
  return postAll(access, decisions)
}

async function denialOf(item: DecisionItem, reason: string): Promise<object> {
  const details = reason.trim() === '' ? {} : { reason: reason.trim() }
  return { decision: 'denied', item_s256: await s256(canonicalize(item)), ...details }
}

async function approvalOf(
  access: Access,
  item: DecisionItem,
  { only = false, passkey }: How = {},
): Promise<object> {
  // The hash of what was shown, computed here. The hash that the server sends does not count.
  const item_s256 = await s256(canonicalize(item))
  const decided = { decision: 'approved', item_s256, ...(only ? { only } : {}) } as const
  const { proof } = access
  const claimsFor = (thumbprint: string): StatementClaims =>
    claimsOf(access, thumbprint, { item, item_s256, only })
  if (passkey !== undefined) {
    const claims = claimsFor(await passkeyThumbprint(passkey))
    return { ...decided, statement: await signByPasskey(passkey, claims) }
  }
  if (proof.by !== 'key') return decided
  return { ...decided, statement: await signByKey(proof.key, claimsFor(proof.key.kid)) }
}

function claimsOf(
  access: Access,
  thumbprint: string,
  { item, item_s256, only }: { item: DecisionItem; item_s256: string; only: boolean },
): StatementClaims {
  const { owner, family, single_use, expires_in } = item
  return statementClaims(
    {
      aud: access.issuer,
      owner,
      family,
      decision: 'approved',
      item_s256,
      admits: admissionIn({ decision: 'approved', isFirstContact: isFirstContact(item), only }),
      single_use,
      expires_in,
      iat: nowOf(access),
      jti: `dec_${randomText(16)}`,
    },
    thumbprint,
  )
}

async function signByKey(key: BrowserKey, claims: StatementClaims): Promise<string> {
  const header = { alg: 'EdDSA', typ: TYP.decision, kid: key.kid }
  const input = `${base64url(JSON.stringify(header))}.${base64url(JSON.stringify(claims))}`
  return `${input}.${base64url(await sign(key, input))}`
}

function post(access: Access, family: string, body: object): Promise<DecisionRecord> {
  return ask<DecisionRecord>(access, {
    method: 'POST',
    path: `owner/pending/${encodeURIComponent(family)}/decision`,
    body,
  })
}

async function postAll(access: Access, decisions: readonly object[]): Promise<DecisionRecord[]> {
  const path = 'owner/pending/decisions'
  const answer = await ask<{ decisions: DecisionRecord[] }>(access, {
    method: 'POST',
    path,
    body: { decisions },
  })
  return answer.decisions
}
