/**
 * Cosignatures (C2SP `tlog-cosignature`, `cosignature/v1`): a witness signs that at this time the checkpoint
 * was of the largest tree of its log that it had seen, and that each tree before it was a part of it.
 * Contract: "Events" (row 5); docs/choices.md, "Checkpoints of the ledger".
 */
import { refuse } from '../refusal.ts'
import { signEd25519, verifyEd25519, type PrivateKey, type PublicKey } from '../signatures/keys.ts'
import { noteKeyId, parseNote, type NoteSignature } from './signed-note.ts'
import type { VerifierKey } from './verifier-key.ts'

/** Who cosigned, and when, in seconds since the epoch. */
export interface Cosignature {
  witness: string
  time: number
}

/** The signature begins with the time: 64 bits, the highest byte first. */
const TIME_BYTES = 8
/** The last second of the year 9999: a later time is in no date that people read. */
const TIME_MAX = 253_402_300_799

/**
 * The cosignature over the text of a checkpoint by the witness with this name; `time` in seconds. @throws
 * RangeError unless that is a whole number from 0 up to the year 9999.
 */
export function cosign(
  text: string,
  { name, key, time }: { name: string; key: PrivateKey; time: number },
): NoteSignature {
  if (!isTime(time)) throw new RangeError('a cosignature has a time in whole seconds')
  const timestamp = Buffer.alloc(TIME_BYTES)
  timestamp.writeBigUInt64BE(BigInt(time))
  const signature = Buffer.concat([timestamp, signEd25519(messageOf(text, time), key)])
  return { name, keyId: noteKeyId(name, key, 'cosignature'), signature }
}

/**
 * What these witnesses cosigned of a note, in their order, each with its latest time. Signatures of others
 * are passed over. Refuses (`invalid_request`) what is no signed note, and a note with a signature that names
 * one of them and is not its own. Whether the log signed it is not verified, and nor is whether the time has
 * come.
 */
export function verifyCosignatures(
  note: Uint8Array | string,
  witnesses: readonly VerifierKey[],
): Cosignature[] {
  const { text, signatures } = parseNote(note)
  return witnesses.flatMap(witness => {
    const times = ofWitness(signatures, witness).map(one => holdsAt(text, one, witness))
    return times.length === 0 ? [] : [{ witness: witness.name, time: Math.max(...times) }]
  })
}

/**
 * The cosignature of one witness in its answer to a checkpoint, which is lines of signatures; those of
 * unknown keys are left out. Of several by its key it is the latest: with all of them, one witness could fill
 * the note, which has a bound, so that nobody reads it. Refuses (`invalid_request`) an answer of another
 * form, or without any of this witness, and one with a signature that names it and is not its own.
 */
export function readCosignature(answer: string, text: string, witness: VerifierKey): NoteSignature {
  const read = parseNote(`${text}\n${answer}`)
  const found = ofWitness(read.signatures, witness)
  // An empty line in the answer would make a part of it the end of the text.
  if (read.text !== text || found.length === 0)
    refuse(
      'invalid_request',
      `Answer with lines of signatures, one of them a cosignature of ${witness.name}.`,
    )
  const timed = found.map(one => ({ one, time: holdsAt(text, one, witness) }))
  return timed.reduce((latest, next) => (next.time > latest.time ? next : latest)).one
}

function ofWitness(signatures: readonly NoteSignature[], { name, keyId }: VerifierKey): NoteSignature[] {
  return signatures.filter(one => one.name === name && one.keyId.equals(keyId))
}

/** The time of a cosignature, in seconds. */
function holdsAt(text: string, { signature }: NoteSignature, { name, key }: VerifierKey): number {
  const time = signature.length > TIME_BYTES ? Number(signature.readBigUInt64BE()) : Number.NaN
  if (!isTime(time) || !isOf(key, text, { time, signed: signature.subarray(TIME_BYTES) }))
    refuse('invalid_request', `Send a note as it was signed: a cosignature of ${name} does not hold.`)
  return time
}

function isOf(key: PublicKey, text: string, { time, signed }: { time: number; signed: Buffer }): boolean {
  return verifyEd25519(messageOf(text, time), signed, key)
}

function messageOf(text: string, time: number): Buffer {
  return Buffer.from(`cosignature/v1\ntime ${time}\n${text}`)
}

const isTime = (time: number): boolean => Number.isSafeInteger(time) && time >= 0 && time <= TIME_MAX
