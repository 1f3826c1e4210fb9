/**
 * Whether a witness cosigns a checkpoint (C2SP `tlog-witness`): its log is known, a key of the log signed it,
 * and a proof leads to it from the last checkpoint that the witness cosigned. An origin's first checkpoint is
 * believed. docs/details/witness.md. Contract: "Events" (row 5).
 */
import type { AddCheckpoint } from '../../wire/ledger/add-checkpoint.ts'
import { parseCheckpointText, type Checkpoint } from '../../wire/ledger/checkpoint.ts'
import { tagOfOrigin } from '../../wire/ledger/ledger-head.ts'
import { parseNote, verifyNote } from '../../wire/ledger/signed-note.ts'
import { refuse, refusingAs } from '../../wire/refusal.ts'
import type { PublicKey } from '../../wire/signatures/keys.ts'
import { EMPTY_ROOT, provesConsistency, type TreeHead } from './merkle.ts'

/** An authority whose logs a witness takes: one for each owner, all below one address, with the same keys. */
export interface WitnessedIssuer {
  issuer: string
  keys: readonly PublicKey[]
}

/** A checkpoint that a key of its log signed, and what the request says of the tree before it. */
export interface SignedSubmission<Issuer extends WitnessedIssuer> {
  issuer: Issuer
  checkpoint: Checkpoint
  /** What is cosigned. */
  text: string
  /** The text with its signatures, as it was sent. */
  note: string
  oldSize: number
  proof: readonly Uint8Array[]
}

/**
 * What a request submits. Refuses with 404 (`not_found`) an origin of nobody among these issuers, with 403
 * (`invalid_signature`) a checkpoint that no key of its log signed, or that has a false signature beside a
 * true one, and with 400 (`invalid_request`) what is no checkpoint, or a proof from a larger tree.
 */
export function readSubmission<Issuer extends WitnessedIssuer>(
  { oldSize, proof, note }: AddCheckpoint,
  issuers: readonly Issuer[],
): SignedSubmission<Issuer> {
  const [origin = ''] = parseNote(note).text.split('\n', 1)
  const issuer = issuers.find(one => tagOfOrigin(origin, one.issuer) !== undefined)
  if (issuer === undefined)
    refuse('not_found', 'This witness knows no log of that origin: its configuration names the issuers.')
  const text = refusingAs('invalid_signature', () => verifyNote(note, { name: origin, keys: issuer.keys }))
  const checkpoint = parseCheckpointText(text, origin)
  if (oldSize > checkpoint.size)
    refuse('invalid_request', 'Send an old size that is at most the size of the checkpoint.')
  return { issuer, checkpoint, text, note, oldSize, proof }
}

/** Whether a checkpoint is cosigned, or why not. */
export type WitnessVerdict =
  | { kind: 'cosign' }
  /** 409: the proof does not begin at the last checkpoint that was cosigned, whose size this is. */
  | { kind: 'conflict'; size: number }
  /** 409, too: at that size the log has now signed another root. */
  | { kind: 'contradiction'; size: number }
  /** 422: the proof does not show that the new tree continues that one. */
  | { kind: 'unproved'; because: string }

/** Judges a submission by the last checkpoint of its origin that was cosigned, undefined if none was. */
export function judgeSubmission(
  { checkpoint, oldSize, proof }: Pick<SignedSubmission<WitnessedIssuer>, 'checkpoint' | 'oldSize' | 'proof'>,
  latest: TreeHead | undefined,
): WitnessVerdict {
  const size = latest?.size ?? 0
  if (oldSize !== size) return { kind: 'conflict', size }
  if (checkpoint.size === 0 && Buffer.compare(checkpoint.root, EMPTY_ROOT) !== 0)
    return { kind: 'unproved', because: 'A tree without entries has another root.' }
  if (size === 0)
    // Every tree continues the one without entries, and so there is nothing to prove.
    return proof.length === 0
      ? { kind: 'cosign' }
      : { kind: 'unproved', because: 'From the old size 0 nothing is proved: send no proof.' }
  const isSameSize = checkpoint.size === size
  if (isSameSize && Buffer.compare(checkpoint.root, latest!.root) !== 0)
    return { kind: 'contradiction', size }
  return provesConsistency(latest!, checkpoint, proof)
    ? { kind: 'cosign' }
    : { kind: 'unproved', because: `The proof does not lead from the tree of ${size} to this one.` }
}
