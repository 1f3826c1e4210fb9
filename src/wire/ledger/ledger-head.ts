/**
 * A head of an owner's ledger as receipts and introspection answers carry it: all that its signed note has,
 * so that the note is made again from it byte for byte. docs/choices.md, "Heads that others keep". Contract:
 * "Events" (row 5).
 */
import { decodeBase64url, encodeBase64url } from '../encoding.ts'
import { integerMember, member } from '../json-members.ts'
import { isJsonObject, type JsonObject } from '../json.ts'
import { refuse } from '../refusal.ts'
import { keyNamed, type PublicKey, type PublishedKey } from '../signatures/keys.ts'
import { checkpointText, originBase, verifyCheckpoint, type Checkpoint } from './checkpoint.ts'
import { isNoteKeyName, joinNote, noteKeyId, parseNote } from './signed-note.ts'

/** `root` (32 bytes) and `sig` (the Ed25519 signature, 64 bytes) are base64url; `kid` names the log's key. */
export type LedgerHead = { origin: string; size: number; root: string; kid: string; sig: string }

const ROOT_BYTES = 32
const SIGNATURE_BYTES = 64
const ORIGIN_LENGTH_MAX = 2048
const KID_LENGTH_MAX = 255
/** What follows the base of an origin: the routing tag, and after a restore its time in seconds. */
const TAG_FORM = /^([A-Za-z0-9_-]{1,64})(?:\/[1-9]\d{0,15})?$/

const AFTER_RESTORE = /^(.*\/ledger\/[A-Za-z0-9_-]{1,64})\/[1-9]\d{0,15}$/

/** The head in a checkpoint of ours; `kid` is that of the key that signed it. */
export function headOfCheckpoint(note: string, kid: string): LedgerHead {
  const { text, signatures } = parseNote(note)
  const [origin, size, root] = text.split('\n')
  const [signature] = signatures
  return {
    origin: origin!,
    size: Number(size),
    root: encodeBase64url(Buffer.from(root!, 'base64')),
    kid,
    sig: encodeBase64url(signature!.signature),
  }
}

/** The signed note that the head was taken from, byte for byte; `key` is the one that `kid` names. */
export function checkpointOfHead(head: LedgerHead, key: Pick<PublicKey, 'bytes'>): string {
  const { origin, size } = head
  const text = checkpointText({ origin, size, root: decodeBase64url(head.root) })
  return joinNote(text, { name: origin, keyId: noteKeyId(origin, key), signature: decodeBase64url(head.sig) })
}

/**
 * The head in a member of a document, as it is written; nothing says yet that its log signed it. Refuses
 * (`invalid_request`) any other value. Unknown members are left out.
 */
export function readLedgerHead(value: unknown): LedgerHead {
  if (!isJsonObject(value)) malformed('it is no object')
  const origin = text(value, 'origin')
  const kid = text(value, 'kid')
  if (origin.length > ORIGIN_LENGTH_MAX || !isNoteKeyName(origin)) malformed('its origin names no log')
  if (kid === '' || kid.length > KID_LENGTH_MAX) malformed(`its kid has 1 to ${KID_LENGTH_MAX} characters`)
  const size = integerMember(value, 'size')
  if (size < 0) malformed('its size is below 0')
  return {
    origin,
    size,
    root: bytes(value, 'root', ROOT_BYTES),
    kid,
    sig: bytes(value, 'sig', SIGNATURE_BYTES),
  }
}

/**
 * The checkpoint of a head that one of the log's keys signed. Refuses (`invalid_request`) one whose key is
 * not among them, and one whose signature does not hold.
 */
export function verifyLedgerHead(head: LedgerHead, keys: readonly PublishedKey[]): Checkpoint {
  const key = keyNamed(keys, head.kid)
  if (key === undefined) refuse('invalid_request', 'Give the key of the log that the head names.')
  return verifyCheckpoint(checkpointOfHead(head, key), { origin: head.origin, keys: [key] })
}

/** The routing tag in an origin of this issuer; undefined if it is none of its origins. */
export function tagOfOrigin(origin: string, issuer: string): string | undefined {
  const base = originBase(issuer)
  return origin.startsWith(base) ? TAG_FORM.exec(origin.slice(base.length))?.[1] : undefined
}

/** What all origins of one ledger have in common: the origin without the time of a restore. */
export function logOfOrigin(origin: string): string {
  return AFTER_RESTORE.exec(origin)?.[1] ?? origin
}

/** When the restore was by which an origin began, as Unix time; 0 for the first origin of a ledger. */
export function restoreTimeOf(origin: string): number {
  const log = logOfOrigin(origin)
  return log === origin ? 0 : Number(origin.slice(log.length + 1))
}

function text(object: JsonObject, name: string): string {
  const value = member(object, name)
  return typeof value === 'string' ? value : malformed(`its ${name} is no text`)
}

/** Text that is so many bytes in the one spelling that base64url has for them. */
function bytes(object: JsonObject, name: string, count: number): string {
  const value = text(object, name)
  const decoded = Buffer.from(value, 'base64url')
  if (decoded.length !== count || encodeBase64url(decoded) !== value)
    malformed(`its ${name} is not ${count} bytes in base64url`)
  return value
}

function malformed(why: string): never {
  return refuse('invalid_request', `Give ledger_head as its authority wrote it: ${why}.`)
}
