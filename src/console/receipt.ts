/**
 * Owns the check of a receipt in the browser: the authority's signature by a key that it publishes, the
 * agreement in it by the agent's own key, and her decision by one of hers. Contract: "Grant answer (beat 4)"
 * (both sides hold the receipt), "Algorithms". It is the same check as `usher verify receipt`, by WebCrypto.
 */
import { isJsonObject, type Json, type JsonObject } from '../wire/json.ts'
import { TYP } from '../wire/names.ts'
import type { ReceiptRecord } from '../wire/owner/owner-api.ts'
import type { DeviceKey as ListedKey, Passkey } from '../wire/owner/owner-credentials.ts'
import { ask, askAll, type Access } from './access/api.ts'
import { s256 } from './bytes.ts'
import { isSignedBy, keyIn, parsedJws, signedAgreement } from './jws.ts'
import { passkeysOf } from './access/passkey.ts'
import { signedByPasskey } from './access/passkey-statement.ts'

/**
 * Whether it holds, why not, and whose decision is in it: `name` is her name for the key that signed.
 * `other`: something signed that this page does not check.
 */
export type ReceiptCheck =
  | { holds: false; fault: Fault }
  | { holds: true; kid: string; decision: 'none' | 'other' | { name: string } }
export type Fault =
  | 'unreadable'
  | 'key'
  | 'signature'
  | 'issuer'
  | 'agreement'
  | 'agent'
  | 'repeated'
  | 'listed'
  | 'decision'

/** What it is checked against. */
export interface Checking {
  published: Json[]
  mine: readonly ListedKey[]
  passkeys: readonly Passkey[]
}

const REPEATED = ['terms_uri', 'template_id', 'family', 'resource_id'] as const

/** The keys that the authority publishes, and hers, including those that she removed. */
export async function keysFor(access: Access): Promise<Checking> {
  const [{ keys }, mine, passkeys] = await Promise.all([
    ask<{ keys: Json[] }>(access, { path: 'jwks' }),
    askAll<ListedKey>(access, 'owner/device-keys'),
    passkeysOf(access),
  ])
  return { published: keys, mine, passkeys }
}

/** Checks one receipt that the ledger lists; returns the first fault. */
export async function checkReceipt(
  record: Pick<ReceiptRecord, 'receipt' | 'family' | 'jti' | 'handle'>,
  { published, ...hers }: Checking,
  issuer: string,
): Promise<ReceiptCheck> {
  const refused = (fault: Fault): ReceiptCheck => ({ holds: false, fault })
  const jws = parsedJws(record.receipt, TYP.receipt)
  if (jws === undefined) return refused('unreadable')
  const { kid } = jws.header
  const named = published.filter(key => isJsonObject(key) && key['kid'] === kid)
  const x = named.length === 1 ? keyIn(named[0]) : undefined
  if (x === undefined || typeof kid !== 'string') return refused('key')
  if (!(await isSignedBy(jws, x))) return refused('signature')
  const { payload } = jws
  if (payload['iss'] !== issuer) return refused('issuer')
  const agreed = await receiptAgreementFault(payload)
  if (agreed !== undefined) return refused(agreed)
  const says = [payload['family'], payload['rpt'], payload['sub']]
  if (!isSame(says, [record.family, record.jti, record.handle])) return refused('listed')
  const decision = await decisionOf(payload, hers)
  return decision === 'wrong' ? refused('decision') : { holds: true, kid, decision }
}

/**
 * Checks that the agreement is the one that the receipt names, signed with the key that it names, and about
 * the same things.
 */
async function receiptAgreementFault(receipt: JsonObject): Promise<Fault | undefined> {
  const { agreement_jws: compact, agreement, cnf, echo_absent: absent = [] } = receipt
  if (typeof compact !== 'string' || (await s256(compact)) !== agreement) return 'agreement'
  const jkt = isJsonObject(cnf) && typeof cnf['jkt'] === 'string' ? cnf['jkt'] : ''
  const claims = await signedAgreement(compact, { agreement, jkt })
  if (claims === undefined) return 'agent'
  const left = Array.isArray(absent) ? absent : []
  const differs = REPEATED.some(name => !left.includes(name) && claims[name] !== receipt[name])
  return differs ? 'repeated' : undefined
}

/** Checks her signature, by a key that is or was hers, over the record that the receipt names. */
async function decisionOf(
  receipt: JsonObject,
  { mine, passkeys }: Omit<Checking, 'published'>,
): Promise<'none' | 'other' | 'wrong' | { name: string }> {
  const { owner_decision: decision } = receipt
  if (decision === undefined) return 'none'
  if (!isJsonObject(decision)) return 'wrong'
  const { statement, item_s256 } = decision
  const signed =
    typeof statement === 'string'
      ? await signedByKey(statement, mine)
      : await signedByPasskey(statement, passkeys)
  if (typeof signed === 'string') return signed
  const { payload, name } = signed
  const about = [payload['item_s256'], payload['owner'], payload['aud'], payload['decision']]
  const required = [item_s256, receipt['owner'], receipt['iss'], 'approved']
  return isSame(about, required) ? { name } : 'wrong'
}

async function signedByKey(
  statement: string,
  mine: readonly ListedKey[],
): Promise<'other' | 'wrong' | { payload: JsonObject; name: string }> {
  const jws = parsedJws(statement, TYP.decision)
  if (jws === undefined) return 'wrong'
  const { payload } = jws
  const key = mine.find(({ kid }) => `jkt:${kid}` === payload['iss'])
  if (key === undefined) return 'other'
  const x = keyIn(key.jwk as unknown as Json)
  return x !== undefined && (await isSignedBy(jws, x)) ? { payload, name: key.name } : 'wrong'
}

function isSame(values: readonly unknown[], required: readonly unknown[]): boolean {
  return values.every((one, place) => one === required[place])
}
