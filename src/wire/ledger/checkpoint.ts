/**
 * The checkpoint of an owner's ledger (C2SP `tlog-checkpoint`): a signed note over origin, size and root of
 * her tree. The origin is also the name of the key. Contract: "Events" (row 5); docs/choices.md,
 * "Checkpoints of the ledger".
 */
import { refuse } from '../refusal.ts'
import type { PrivateKey, PublicKey } from '../signatures/keys.ts'
import { isNoteKeyName, signNote, verifyNote } from './signed-note.ts'

/** A tree of `size` leaves has this root, of 32 bytes; `origin` says whose it is. */
export interface Checkpoint {
  origin: string
  size: number
  root: Uint8Array
}

const ROOT_BYTES = 32
/** The text of a checkpoint without extension lines, which no log of ours writes: nobody can audit them. */
const CHECKPOINT = /^([^\n]+)\n(0|[1-9]\d{0,15})\n([A-Za-z0-9+/]{43}=)\n$/

/**
 * What every origin of an issuer begins with; the owner's routing tag follows, and after a restore its time.
 * It has no scheme.
 */
export function originBase(issuer: string): string {
  return `${issuer.replace(/^https?:\/\//, '')}/ledger/`
}

/** Whether origins of this issuer are names that a note's key may have. */
export function isOriginIssuer(issuer: string): boolean {
  return isNoteKeyName(originBase(issuer))
}

/** The signed note of a checkpoint. @throws RangeError if it is none that `verifyCheckpoint` takes. */
export function signCheckpoint(checkpoint: Checkpoint, key: PrivateKey): string {
  return signNote(checkpointText(checkpoint), { name: checkpoint.origin, key })
}

/** What is signed of it. @throws RangeError if its size or its root is none. */
export function checkpointText({ origin, size, root }: Checkpoint): string {
  if (!Number.isSafeInteger(size) || size < 0 || root.length !== ROOT_BYTES)
    throw new RangeError('a checkpoint has a size from 0 to 2^53 - 1 and a root of 32 bytes')
  return `${origin}\n${size}\n${Buffer.from(root).toString('base64')}\n`
}

/**
 * The checkpoint of this origin that one of the log's keys signed. Refuses (`invalid_request`) another
 * origin's, one that none of them signed, and any other text. It does not say whether the tree continues an
 * older one: a proof of consistency does.
 */
export function verifyCheckpoint(
  note: Uint8Array | string,
  { origin, keys }: { origin: string; keys: readonly PublicKey[] },
): Checkpoint {
  return parseCheckpointText(verifyNote(note, { name: origin, keys }), origin)
}

/** What the text of a checkpoint of this origin says. Refuses (`invalid_request`) any other text. */
export function parseCheckpointText(text: string, origin: string): Checkpoint {
  const [, first, digits, base64] = CHECKPOINT.exec(text) ?? []
  if (first !== origin || digits === undefined || base64 === undefined)
    refuse('invalid_request', `Send a checkpoint of ${origin} in three lines: origin, size and root.`)
  const [size, root] = [Number(digits), Buffer.from(base64, 'base64')]
  if (!Number.isSafeInteger(size) || root.toString('base64') !== base64)
    refuse('invalid_request', `Send a checkpoint with a size of at most 2^53 - 1 and a root of 32 bytes.`)
  return { origin, size, root }
}
