/**
 * Owns reading the signatures of a request and choosing the one that counts. Contract: "Authentication"; RFC
 * 9421 §3.2 steps 1 and 2, §4. Nothing here is verified yet.
 */
import type { InnerList } from 'structured-headers'
import type { PublicKey } from './keys.ts'
import { refuseSignature, type HeaderLines } from './signature-base.ts'
import { isInnerList, parseDictionaryField, type DictionaryMember } from './structured-fields.ts'

const LABELS_MAX = 4
const COMPONENTS_MAX = 64
const FIELD_CHARACTERS_MAX = 8192

/**
 * The pair of one label, read only as far as the choice needs: signatures of other parties may use other
 * algorithms.
 */
export interface Candidate {
  covered: InnerList
  /**
   * The names of the covered components; a name with parameters is another component and ends in a semicolon.
   */
  names: string[]
  keyid: string | undefined
  input: DictionaryMember
  signature: DictionaryMember
}

/** The key whose signature is required. */
export interface KeyPolicy {
  /**
   * The trusted key behind a `keyid`. If no keyid is required (an agent's call) and there is a single
   * signature, this is called with undefined and returns the bound key, whatever keyid the signature has. If
   * there are several, it is called with the keyid of each.
   */
  findKey: (keyid: string | undefined) => PublicKey | undefined
  keyidRequired: boolean
}

/**
 * All signatures of a message, at most four, each with both of its fields (RFC 9421 §4); refuses with
 * `invalid_token`, 401.
 */
export function readSignatures(headers: HeaderLines): Candidate[] {
  const inputs = signatureField(headers, 'signature-input')
  const signatures = signatureField(headers, 'signature')
  if (inputs.size > LABELS_MAX) refuseSignature(`Send at most ${LABELS_MAX} signatures.`)
  // The numbers are equal and each input has its signature, so each signature has its input.
  if (inputs.size !== signatures.size)
    refuseSignature('Use the same labels in Signature-Input and Signature.')
  const candidates: Candidate[] = []
  for (const [label, input] of inputs) {
    const signature = signatures.get(label)
    if (!signature) refuseSignature('Use the same labels in Signature-Input and Signature.')
    candidates.push(readCandidate(input, signature))
  }
  return candidates
}

function signatureField(headers: HeaderLines, name: string): Map<string, DictionaryMember> {
  const lines = headers.get(name)
  if (!lines || lines.length === 0)
    refuseSignature('Sign the request: send Signature-Input and Signature (RFC 9421).')
  const characters = lines.reduce((sum, line) => sum + line.length, 0)
  if (characters > FIELD_CHARACTERS_MAX)
    refuseSignature(`Keep each signature field within ${FIELD_CHARACTERS_MAX} bytes.`)
  const members = parseDictionaryField(lines)
  if (!members || members.size === 0)
    refuseSignature(`Send ${name} as a dictionary that names each label and parameter once.`)
  return members
}

function readCandidate(input: DictionaryMember, signature: DictionaryMember): Candidate {
  const covered = input.value
  if (!isInnerList(covered))
    refuseSignature('Give each label in Signature-Input a list of covered components.')
  if (covered[0].length > COMPONENTS_MAX) refuseSignature(`Cover at most ${COMPONENTS_MAX} components.`)
  const names: string[] = []
  for (const [name, parameters] of covered[0]) {
    // "authorization";bs does not count as authorization.
    if (typeof name === 'string') names.push(parameters.size === 0 ? name : `${name};`)
  }
  const keyid = covered[1].get('keyid')
  return { covered, names, keyid: typeof keyid === 'string' ? keyid : undefined, input, signature }
}

const SIGNATURE_TEXT = /^:([A-Za-z0-9+/]{86}==):$/

/**
 * The 64 bytes of a signature, which has only one spelling; otherwise a replay could look like another
 * request.
 */
export function signatureBytes(signature: DictionaryMember): Buffer {
  const text = SIGNATURE_TEXT.exec(signature.raw)?.[1] ?? ''
  const bytes = Buffer.from(text, 'base64')
  if (text === '' || bytes.toString('base64') !== text) {
    refuseSignature('Give the signature as 64 bytes of canonical base64 between colons.')
  }
  return bytes
}

/**
 * The signature that counts and the key it must be by (RFC 9421 §3.2 step 2): it is chosen by policy, never
 * as "any signature that verifies", and a label means nothing. Refuses with `invalid_token`, 401, if none or
 * more than one qualifies.
 */
export function chooseSignature(
  candidates: readonly Candidate[],
  required: readonly string[],
  policy: KeyPolicy,
): { candidate: Candidate; key: PublicKey } {
  if (candidates.length === 1) {
    const candidate = candidates[0]!
    if (policy.keyidRequired && candidate.keyid === undefined)
      refuseSignature('Name the signing key by keyid.')
    const key = policy.findKey(policy.keyidRequired ? candidate.keyid : undefined)
    if (!key) refuseSignature('Sign with a registered key, and name it by its keyid.')
    return { candidate, key }
  }
  const named: { candidate: Candidate; key: PublicKey }[] = []
  for (const candidate of candidates) {
    const key = candidate.keyid === undefined ? undefined : policy.findKey(candidate.keyid)
    if (key) named.push({ candidate, key })
  }
  if (named.length === 0) refuseSignature('Name the bound key by keyid in one of the signatures.')
  if (named.length === 1) return named[0]!
  // A key may also sign for another profile; only a signature that covers the required components qualifies.
  const meant = named.filter(({ candidate }) => required.every(name => candidate.names.includes(name)))
  if (meant.length !== 1)
    refuseSignature('Send one signature of the bound key that covers the required components.')
  return meant[0]!
}
