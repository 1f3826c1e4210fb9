/**
 * Asks a witness to cosign a checkpoint (C2SP `tlog-witness`). docs/details/ledger.md, "Witnesses". Contract:
 * "Events" (row 5).
 */
import { OutboundFault, type Outbound } from '../../http/outbound/outbound.ts'
import {
  ADD_CHECKPOINT_PATH,
  encodeAddCheckpoint,
  parseTreeSize,
  type AddCheckpoint,
} from '../../wire/ledger/add-checkpoint.ts'
import { readCosignature } from '../../wire/ledger/cosignature.ts'
import { parseNote, signatureLine } from '../../wire/ledger/signed-note.ts'
import type { VerifierKey } from '../../wire/ledger/verifier-key.ts'
import { Refusal } from '../../wire/refusal.ts'

/** A witness: where it is asked, and by which key it cosigns. */
export interface WitnessAddress {
  url: string
  key: VerifierKey
}

/** What a witness said to a checkpoint. */
export type WitnessAnswer =
  | { kind: 'cosigned'; line: string }
  /** The proof must begin at the tree of this size. */
  | { kind: 'conflict'; size: number }
  /** It cosigns nothing, and says why by a status. */
  | { kind: 'refused'; status: number }
  /** It gave no answer in time, or none that can be read. */
  | { kind: 'silent'; error: Error }

const ANSWER_MS_MAX = 5_000
const ANSWER_BYTES_MAX = 64 * 1_024

/** Sends a checkpoint to a witness. Never fails. */
export async function askWitness(
  outbound: Outbound,
  { url, key }: WitnessAddress,
  request: AddCheckpoint,
): Promise<WitnessAnswer> {
  try {
    const { status, body } = await outbound.request({
      method: 'POST',
      url: url + ADD_CHECKPOINT_PATH,
      headers: { 'content-type': 'text/plain; charset=utf-8' },
      body: encodeAddCheckpoint(request),
      timeoutMs: ANSWER_MS_MAX,
      responseBytesMax: ANSWER_BYTES_MAX,
    })
    if (status === 409) return { kind: 'conflict', size: parseTreeSize(body.toString()) }
    if (status >= 500 || status === 429) return { kind: 'silent', error: new Error(`it answered ${status}`) }
    if (status !== 200) return { kind: 'refused', status }
    const { text } = parseNote(request.note)
    return { kind: 'cosigned', line: signatureLine(readCosignature(body.toString(), text, key)) }
  } catch (error) {
    if (!(error instanceof OutboundFault) && !(error instanceof Refusal)) throw error
    return { kind: 'silent', error }
  }
}
