/**
 * Owns the receipt: the owner's authority counter-signs the agreement, so that both sides have the same
 * record. Contract: "Grant answer (beat 4)".
 */
import { readStatement, type SignedStatement } from '../owner/decision-statement.ts'
import type { JsonObject } from '../json.ts'
import { readLedgerHead, type LedgerHead } from '../ledger/ledger-head.ts'
import { checkClaims, findByKid, signJws, verifyJws, type Verified } from '../signatures/jws.ts'
import type { PrivateKey, PublishedKey } from '../signatures/keys.ts'
import { verifyKnownAgreement } from './known-agreement.ts'
import {
  compactMember,
  integerMember,
  member,
  objectMember,
  textMember,
  textsMember,
  urlMember,
} from '../json-members.ts'
import { TYP } from '../names.ts'
import { refuse } from '../refusal.ts'
import { OPTIONAL_ECHOES } from './terms.ts'
import { asFamily, asHandle, asOwner, type Family, type Handle, type Owner } from '../identifiers.ts'

/**
 * `agreement` is the s256 of `agreement_jws`, `rpt` the `jti` of the grant, `cnf.jkt` the thumbprint of the
 * agent's key. `echo_absent` names the claims of the offer that the agreement left out; absent if it repeated
 * all.
 */
export type ReceiptClaims = {
  iss: string
  sub: Handle
  owner: Owner
  iat: number
  jti: string
  family: Family
  resource_id: string
  terms_uri: string
  template_id: string
  agreement: string
  agreement_jws: string
  cnf: { jkt: string }
  rpt: string
  echo_absent?: string[]
  /** The whole basis of a tally's grant. */
  joint?: JsonObject
  /** The owner's signed statement, and the item that it covers. */
  owner_decision?: { item_s256: string; statement: SignedStatement }
  /** A head of her ledger that was signed before the hour of this receipt. */
  ledger_head?: LedgerHead
}

/** A receipt that its authority's keys verified, around an agreement that the agent's key verified. */
export interface Receipt {
  readonly claims: ReceiptClaims
  readonly compact: string
  /** The claims of the embedded agreement, as signed. */
  readonly agreementClaims: JsonObject
}

/** It embeds an agreement of up to 24 KiB, encoded again, and verdicts of up to 16 holders. */
export const RECEIPT_BYTES_MAX = 128 * 1024

/** The compact receipt. */
export function signReceipt(claims: ReceiptClaims, key: PrivateKey): string {
  return signJws({ typ: TYP.receipt, payload: claims }, key)
}

/** What a receipt is verified against; `now` in seconds since the epoch. */
export interface ExpectedReceipt {
  issuer: string
  now: number
  agreement?: string | undefined
  owner?: Owner | undefined
}

/**
 * Verifies a receipt against its authority's published keys, at `now` (seconds): `typ`, `iss`, signature,
 * every claim of its type, and the embedded agreement: its hash, its own signature by the key that `cnf.jkt`
 * names, and that receipt and agreement name the same terms, template, family and resource. If `agreement`
 * (s256) is given, the embedded agreement must be that one. `owner`, of the verified grant that came with
 * it, counts only where the receipt names none. Refuses with `invalid_request`.
 */
export function verifyReceipt(
  compact: string,
  keys: readonly PublishedKey[],
  expected: ExpectedReceipt,
): Verified<Receipt> {
  const document = { typ: TYP.receipt, maxBytes: RECEIPT_BYTES_MAX }
  const { payload } = verifyJws(compact, findByKid(keys), document)
  checkClaims(payload, { iss: expected.issuer, now: expected.now })
  const claims = readReceiptClaims(payload, expected.owner)
  if (expected.agreement !== undefined && claims.agreement !== expected.agreement) {
    refuse('invalid_request', 'Give a receipt for the agreement that was signed.')
  }
  const receipt: Receipt = { claims, compact, agreementClaims: checkEmbedded(claims) }
  return receipt as Verified<Receipt>
}

function readReceiptClaims(payload: JsonObject, owner: Owner | undefined): ReceiptClaims {
  const isUnnamed = owner !== undefined && member(payload, 'owner') === undefined
  return {
    iss: urlMember(payload, 'iss'),
    sub: asHandle(textMember(payload, 'sub')),
    owner: isUnnamed ? owner : asOwner(textMember(payload, 'owner')),
    iat: integerMember(payload, 'iat'),
    jti: textMember(payload, 'jti'),
    family: asFamily(textMember(payload, 'family')),
    resource_id: textMember(payload, 'resource_id'),
    terms_uri: urlMember(payload, 'terms_uri'),
    template_id: textMember(payload, 'template_id'),
    agreement: textMember(payload, 'agreement'),
    agreement_jws: compactMember(payload, 'agreement_jws'),
    cnf: { jkt: textMember(objectMember(payload, 'cnf'), 'jkt') },
    rpt: textMember(payload, 'rpt'),
    ...(member(payload, 'echo_absent') === undefined
      ? {}
      : { echo_absent: textsMember(payload, 'echo_absent') }),
    ...(member(payload, 'joint') === undefined ? {} : { joint: objectMember(payload, 'joint') }),
    ...readOwnerDecision(payload),
    ...(member(payload, 'ledger_head') === undefined
      ? {}
      : { ledger_head: readLedgerHead(member(payload, 'ledger_head')) }),
  }
}

function readOwnerDecision(payload: JsonObject): Pick<ReceiptClaims, 'owner_decision'> {
  if (member(payload, 'owner_decision') === undefined) return {}
  const decision = objectMember(payload, 'owner_decision')
  const item_s256 = textMember(decision, 'item_s256')
  return { owner_decision: { item_s256, statement: readStatement(member(decision, 'statement')) } }
}

/** The claims of the embedded agreement, after checking that it is the one that the receipt names. */
function checkEmbedded(claims: ReceiptClaims): JsonObject {
  const { agreement_jws, agreement, cnf } = claims
  const payload = verifyKnownAgreement(agreement_jws, { agreement, jkt: cnf.jkt })
  const absent = OPTIONAL_ECHOES.filter(name => member(payload, name) === undefined)
  if (String(claims.echo_absent ?? []) !== String(absent)) {
    refuse('invalid_request', 'Name in echo_absent what the agreement left out, and nothing else.')
  }
  const repeated = ['terms_uri', 'template_id', 'family', 'resource_id'] as const
  for (const name of repeated.filter(name => !absent.some(left => left === name))) {
    if (member(payload, name) !== claims[name]) {
      refuse('invalid_request', `Give the receipt the ${name} of the agreement in it.`)
    }
  }
  return payload
}
