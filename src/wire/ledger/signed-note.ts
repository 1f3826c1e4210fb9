/**
 * Signed notes (C2SP `signed-note`): text, an empty line, and one line for each signature. Only Ed25519
 * signatures are written and verified here; cosignature.ts has those of witnesses. Contract: "Events" (row
 * 5); docs/choices.md, "Checkpoints of the ledger".
 */
import { isUtf8 } from 'node:buffer'
import { sha256 } from '../encoding.ts'
import { refuse } from '../refusal.ts'
import { signEd25519, verifyEd25519, type PrivateKey, type PublicKey } from '../signatures/keys.ts'

/** As many bytes and signatures as Go's reader takes. */
const NOTE_BYTES_MAX = 1_000_000
const SIGNATURES_MAX = 100

const DASH = '—'
/**
 * The byte before the public key in what a key id is the hash of. It says how the key signs: notes by
 * Ed25519, or cosignatures of witnesses (`cosignature/v1`).
 */
export const NOTE_KEY_TYPES = { ed25519: 0x01, cosignature: 0x04 } as const
export type NoteKeyType = keyof typeof NOTE_KEY_TYPES
const KEY_ID_BYTES = 4

/** A key's name: neither a space of Unicode nor a plus is in it. */
const KEY_NAME = /^[^\p{White_Space}+\p{Cc}]+$/u
const SIGNATURE_LINE = /^— ([^ ]+) ([A-Za-z0-9+/]+={0,2})$/u

/** Whether keys of notes may have this name. */
export function isNoteKeyName(name: string): boolean {
  return KEY_NAME.test(name) && name.isWellFormed()
}

/** The 4 bytes by which a signature line names its key, beside the name. */
export function noteKeyId(
  name: string,
  key: Pick<PublicKey, 'bytes'>,
  type: NoteKeyType = 'ed25519',
): Buffer {
  const hashed = Buffer.concat([Buffer.from(`${name}\n`), Buffer.of(NOTE_KEY_TYPES[type]), key.bytes])
  return sha256(hashed).subarray(0, KEY_ID_BYTES)
}

/**
 * The note of a text and one signature by this key. @throws RangeError unless the text is one that every
 * reader takes: it ends with a newline and has no other control character.
 */
export function signNote(text: string, { name, key }: { name: string; key: PrivateKey }): string {
  if (!text.endsWith('\n') || hasControls(text) || !text.isWellFormed() || !isNoteKeyName(name))
    throw new RangeError('a note has a text of whole lines and a key name without spaces')
  return joinNote(text, {
    name,
    keyId: noteKeyId(name, key),
    signature: signEd25519(Buffer.from(text), key),
  })
}

/** The note of a text and a signature that was made of it. */
export function joinNote(text: string, signature: Readonly<NoteSignature>): string {
  return `${text}\n${signatureLine(signature)}`
}

/** The line of a signature, with its end. */
export function signatureLine({ name, keyId, signature }: Readonly<NoteSignature>): string {
  return `${DASH} ${name} ${Buffer.concat([keyId, signature]).toString('base64')}\n`
}

/** A signature line as it was read. Nothing says yet whose it is. */
export interface NoteSignature {
  name: string
  keyId: Buffer
  signature: Buffer
}

/**
 * The text of a note and its signatures, none of which is verified. Refuses (`invalid_request`) what is no
 * signed note to the letter.
 */
export function parseNote(note: Uint8Array | string): { text: string; signatures: NoteSignature[] } {
  const read = readText(note)
  // The signatures stand behind the last empty line.
  const end = read.lastIndexOf('\n\n') + 1
  const lines = read.slice(end + 1)
  if (end === 0 || !lines.endsWith('\n')) malformed('it has no signature behind an empty line')
  const each = lines.slice(0, -1).split('\n', SIGNATURES_MAX + 1)
  if (each.length > SIGNATURES_MAX) malformed(`it has more than ${SIGNATURES_MAX} signatures`)
  return { text: read.slice(0, end), signatures: each.map(readSignature) }
}

function readText(note: Uint8Array | string): string {
  if (typeof note === 'string' && !note.isWellFormed()) malformed('it is no text of Unicode')
  const bytes = Buffer.from(note as Uint8Array)
  if (bytes.length > NOTE_BYTES_MAX) malformed(`it has more than ${NOTE_BYTES_MAX} bytes`)
  if (!isUtf8(bytes)) malformed('it is not in UTF-8')
  const text = bytes.toString()
  if (hasControls(text)) malformed('it has a control character')
  return text
}

function readSignature(line: string): NoteSignature {
  const [, name = '', base64 = ''] = SIGNATURE_LINE.exec(line) ?? malformed('a line is no signature')
  const bytes = Buffer.from(base64, 'base64')
  if (!isNoteKeyName(name) || bytes.length <= KEY_ID_BYTES || bytes.toString('base64') !== base64)
    malformed('a line is no signature')
  return { name, keyId: bytes.subarray(0, KEY_ID_BYTES), signature: bytes.subarray(KEY_ID_BYTES) }
}

/**
 * The text of a note that one of these keys signed under this name. Signatures of other keys say nothing
 * here. Refuses (`invalid_request`) a note that none of them signed, and one with a signature that names one
 * of them and is not its own.
 */
export function verifyNote(
  note: Uint8Array | string,
  { name, keys }: { name: string; keys: readonly PublicKey[] },
): string {
  const { text, signatures } = parseNote(note)
  const bytes = Buffer.from(text)
  let verified = false
  for (const signature of signatures.filter(one => one.name === name)) {
    const named = keys.filter(key => noteKeyId(name, key).equals(signature.keyId))
    if (named.length === 0) continue
    if (!named.some(key => verifyEd25519(bytes, signature.signature, key)))
      refuse('invalid_request', `Send a note as it was signed: a signature of ${name} does not hold.`)
    verified = true
  }
  if (!verified) refuse('invalid_request', `Send a note that a known key of ${name} signed.`)
  return text
}

/** Control characters of ASCII other than the newline; DEL is none of those that the format excludes. */
function hasControls(text: string): boolean {
  // oxlint-disable-next-line no-control-regex -- matching them is the purpose
  return /[\0-\t\v-\x1f]/.test(text)
}

function malformed(why: string): never {
  return refuse('invalid_request', `Send a signed note (C2SP signed-note): ${why}.`)
}
