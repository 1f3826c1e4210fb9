/**
 * Verifier keys (C2SP `signed-note`): the one line by which people tell each other the public key of a log or
 * of a witness. It has a name, the key id, and the key with its type. Contract: "Events" (row 5);
 * docs/choices.md, "Checkpoints of the ledger".
 */
import { importPublicJwk, type PublicKey } from '../signatures/keys.ts'
import { refuse } from '../refusal.ts'
import { isNoteKeyName, NOTE_KEY_TYPES, noteKeyId, type NoteKeyType } from './signed-note.ts'

/** A public key, its name, how it signs, and the 4 bytes by which signature lines name it beside the name. */
export interface VerifierKey {
  readonly name: string
  readonly type: NoteKeyType
  readonly keyId: Buffer
  readonly key: PublicKey
}

const VERIFIER_KEY = /^([^+]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/]+={0,2})$/u
/** The byte of the type, and an Ed25519 key. */
const TYPED_KEY_BYTES = 33
const TYPES = Object.keys(NOTE_KEY_TYPES) as NoteKeyType[]

/**
 * The key in a line `name+id+key`: the id in 8 hexadecimal digits of lower case, the key in base64. Refuses
 * (`invalid_request`) any other line, an id that is not that of name and key, another type than Ed25519 notes
 * (0x01) and `cosignature/v1` (0x04), and keys that are refused wherever they come from.
 */
export function parseVerifierKey(line: string): VerifierKey {
  const [, name = '', id = '', base64 = ''] = VERIFIER_KEY.exec(line) ?? malformed('it is not name+id+key')
  const typed = Buffer.from(base64, 'base64')
  if (!isNoteKeyName(name)) malformed('its name has a space or a control character')
  if (typed.toString('base64') !== base64) malformed('its key is not in base64')
  const type = TYPES.find(one => NOTE_KEY_TYPES[one] === typed[0])
  if (type === undefined) malformed('its type is neither Ed25519 (0x01) nor cosignature/v1 (0x04)')
  if (typed.length !== TYPED_KEY_BYTES) malformed('its key has not 32 bytes')
  const key = importPublicJwk({ kty: 'OKP', crv: 'Ed25519', x: typed.subarray(1).toString('base64url') })
  const keyId = noteKeyId(name, key, type)
  if (keyId.toString('hex') !== id) malformed('its id is not that of its name and key')
  return { name, type, keyId, key }
}

/** Like `parseVerifierKey`, of a witness: it cosigns. */
export function parseWitnessKey(line: string): VerifierKey {
  const parsed = parseVerifierKey(line)
  if (parsed.type !== 'cosignature') malformed('it is not of a witness, whose type is cosignature/v1 (0x04)')
  return parsed
}

/** The line of a key. @throws RangeError unless a key may have this name. */
export function encodeVerifierKey({ name, type, key }: Omit<VerifierKey, 'keyId'>): string {
  if (!isNoteKeyName(name)) throw new RangeError('a key of notes has a name without spaces')
  const typed = Buffer.concat([Buffer.of(NOTE_KEY_TYPES[type]), key.bytes])
  return `${name}+${noteKeyId(name, key, type).toString('hex')}+${typed.toString('base64')}`
}

function malformed(why: string): never {
  return refuse('invalid_request', `Give a verifier key (C2SP signed-note) as its holder wrote it: ${why}.`)
}
