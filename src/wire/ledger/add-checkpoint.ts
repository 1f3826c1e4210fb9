/**
 * The request by which a log hands a checkpoint to a witness (C2SP `tlog-witness`, `add-checkpoint`): the
 * size that the proof begins at, the proof, an empty line, and the signed note. Contract: "Events" (row 5);
 * docs/choices.md, "Checkpoints of the ledger".
 */
import { isUtf8 } from 'node:buffer'
import { refuse } from '../refusal.ts'

/** `proof` leads from the tree of `oldSize` leaves to the one of the note; each hash has 32 bytes. */
export interface AddCheckpoint {
  oldSize: number
  proof: readonly Uint8Array[]
  /** The checkpoint with its signatures. Nothing says yet that it is one. */
  note: string
}

/** The path below the address of a witness. */
export const ADD_CHECKPOINT_PATH = '/add-checkpoint'
/** The type of an answer 409, which is the size that the proof must begin at. */
export const TREE_SIZE_TYPE = 'text/x.tlog.size'
/** Room for 63 hashes and a note with more signatures, also large ones, than every reader takes. */
export const ADD_CHECKPOINT_BYTES_MAX = 128 * 1_024

const PROOF_HASHES_MAX = 63
const HASH_BYTES = 32
const OLD_SIZE = /^old (0|[1-9]\d{0,15})$/
const HASH = /^[A-Za-z0-9+/]{43}=$/
const TREE_SIZE = /^(0|[1-9]\d{0,15})\n$/

/** The body of a request. @throws RangeError if it is none that a witness takes. */
export function encodeAddCheckpoint({ oldSize, proof, note }: AddCheckpoint): string {
  if (!Number.isSafeInteger(oldSize) || oldSize < 0)
    throw new RangeError('a proof begins at a size from 0 to 2^53 - 1')
  if (proof.length > PROOF_HASHES_MAX || proof.some(hash => hash.length !== HASH_BYTES))
    throw new RangeError(`a proof has at most ${PROOF_HASHES_MAX} hashes of ${HASH_BYTES} bytes`)
  const hashes = proof.map(hash => `${Buffer.from(hash).toString('base64')}\n`)
  return `old ${oldSize}\n${hashes.join('')}\n${note}`
}

/**
 * What a request says. Refuses (`invalid_request`) one that is too long or not to the letter. The note is not
 * read.
 */
export function parseAddCheckpoint(body: Uint8Array): AddCheckpoint {
  if (body.length > ADD_CHECKPOINT_BYTES_MAX) malformed(`it has more than ${ADD_CHECKPOINT_BYTES_MAX} bytes`)
  if (!isUtf8(body)) malformed('it is not in UTF-8')
  const text = Buffer.from(body).toString()
  const end = text.indexOf('\n\n')
  if (end < 0) malformed('it has no empty line before the checkpoint')
  const [first = '', ...lines] = text.slice(0, end).split('\n')
  const [, digits] = OLD_SIZE.exec(first) ?? malformed('its first line is not `old` and a size')
  const oldSize = Number(digits)
  if (!Number.isSafeInteger(oldSize)) malformed('its old size is over 2^53 - 1')
  if (lines.length > PROOF_HASHES_MAX) malformed(`its proof has more than ${PROOF_HASHES_MAX} hashes`)
  return { oldSize, proof: lines.map(readHash), note: text.slice(end + 2) }
}

function readHash(line: string): Buffer {
  const hash = Buffer.from(line, 'base64')
  if (!HASH.test(line) || hash.toString('base64') !== line)
    malformed('a line of its proof is not 32 bytes in base64')
  return hash
}

/** The body of an answer 409. */
export function encodeTreeSize(size: number): string {
  return `${size}\n`
}

/** The size in the body of an answer 409. Refuses (`invalid_request`) any other text. */
export function parseTreeSize(body: string): number {
  const [, digits] = TREE_SIZE.exec(body) ?? refuse('invalid_request', 'Answer with a size and a newline.')
  const size = Number(digits)
  if (!Number.isSafeInteger(size)) refuse('invalid_request', 'Answer with a size of at most 2^53 - 1.')
  return size
}

function malformed(why: string): never {
  return refuse('invalid_request', `Send a request add-checkpoint (C2SP tlog-witness): ${why}.`)
}
