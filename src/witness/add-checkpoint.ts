/**
 * POST /add-checkpoint (C2SP `tlog-witness`): a log hands over its newest checkpoint, with a proof from the
 * last one that this witness cosigned, and gets the cosignature. docs/details/witness.md. Contract: "Events"
 * (row 5).
 */
import { endpoint, type Endpoint } from '../http/servers/endpoint.ts'
import { takeShare } from '../http/source-share.ts'
import { judgeSubmission, readSubmission, type SignedSubmission } from '../rules/ledger/witness.ts'
import { cosignFirst, cosignNext, readCosigned } from '../storage/witness/checkpoints.ts'
import {
  ADD_CHECKPOINT_PATH,
  encodeTreeSize,
  parseAddCheckpoint,
  TREE_SIZE_TYPE,
} from '../wire/ledger/add-checkpoint.ts'
import { cosign } from '../wire/ledger/cosignature.ts'
import { signatureLine } from '../wire/ledger/signed-note.ts'
import { refuse, Refusal } from '../wire/refusal.ts'
import type { BoundedIssuer, Witness } from './context.ts'

/** More than a replica of an authority sends to all its witnesses together (20 a second). */
export const REQUESTS_PER_MINUTE = 1_800

const TEXT = 'text/plain; charset=utf-8'
const EXAMPLE = `old 0

as.example/ledger/AbCdEfGhIjKl
3
G7l9zCFjXUfiZj79/QoXRobZjdcBNS3SzQbotD/T0wU=

— as.example/ledger/AbCdEfGhIjKl BSY3yKskGcYc0uK/mVDqYRWubqrTg1qg3+A9+n2yxwmZzAgFX3PfIJezsElb/H/JJFL8SJoAYlLWdmuwR9sGrDwiBgY=
`

export const ADD_CHECKPOINT: Endpoint<Witness> = endpoint({
  method: 'post',
  path: ADD_CHECKPOINT_PATH,
  rows: { addedUnder: 'Checkpoints of the ledger' },
  summary: 'Cosigns the checkpoint of a log, if it continues the last one',
  rawBody: {
    says: 'The size that the proof begins at, the proof, an empty line, and the signed checkpoint.',
    type: TEXT,
    example: EXAMPLE,
  },
  refuses: {
    403: ['invalid_signature'],
    404: ['not_found'],
    422: ['invalid_request'],
    429: ['temporarily_unavailable'],
  },
  answers: {
    200: {
      says: 'Lines of signatures: a cosignature (C2SP `tlog-cosignature`) by each key of this witness.',
      type: TEXT,
      headers: { 'content-type': TEXT, 'cache-control': 'no-store' },
    },
    409: {
      says: 'The size of the last checkpoint that was cosigned, at which a proof must begin.',
      type: TREE_SIZE_TYPE,
      headers: { 'content-type': TREE_SIZE_TYPE, 'cache-control': 'no-store' },
    },
  },
  handle: async (witness: Witness, { request, answer }) => {
    const read = parseAddCheckpoint(request.rawBody ?? Buffer.alloc(0))
    const submission = readSubmission(read, witness.issuers)
    // What no log signed reads no row, and takes nothing from logs that come from the same address.
    takeShare(witness.shares, request.ip, `${REQUESTS_PER_MINUTE} requests`)
    const outcome = await submit(witness, submission)
    return outcome.kind === 'conflict'
      ? answer(409, encodeTreeSize(outcome.size))
      : answer(200, cosignatures(witness, submission.text, outcome.time))
  },
})

/** Whether it was kept, and when, so that it may be cosigned; or the size that a proof must begin at. */
type Submitted = { kind: 'cosigned'; time: number } | { kind: 'conflict'; size: number }

/** Refuses with 422 what does not continue the last one, and with 404 a log too many of one issuer. */
async function submit(witness: Witness, submission: SignedSubmission<BoundedIssuer>): Promise<Submitted> {
  const { checkpoint, issuer } = submission
  const db = witness.database.ofNobody
  const latest = await readCosigned(db, checkpoint.origin)
  const verdict = judgeSubmission(submission, latest)
  if (verdict.kind === 'unproved')
    throw new Refusal('invalid_request', `It is not cosigned. ${verdict.because}`, { status: 422 })
  if (verdict.kind === 'contradiction') {
    reportContradiction(witness, submission, latest!.root)
    return { kind: 'conflict', size: verdict.size }
  }
  if (verdict.kind === 'conflict') return verdict
  const cosigning =
    latest === undefined
      ? await cosignFirst(db, checkpoint, issuer)
      : await cosignNext(db, checkpoint, latest)
  if (cosigning.kind === 'cosigned') return cosigning
  if (cosigning.kind === 'full')
    refuse(
      'not_found',
      `This witness takes ${issuer.originsMax} logs of this issuer, and knows as many others.`,
    )
  // No row of it is ever deleted.
  return { kind: 'conflict', size: (await readCosigned(db, checkpoint.origin))!.size }
}

/** Two heads of one size with two roots: what the log signed is in the line, for whoever looks into it. */
function reportContradiction(
  { log, countContradiction }: Witness,
  { checkpoint, text, note }: SignedSubmission<BoundedIssuer>,
  root: Uint8Array,
): void {
  countContradiction()
  const { origin, size } = checkpoint
  const cosigned_root = Buffer.from(root).toString('base64')
  // By another name than `signature` it is in the line: it is proof, and no secret.
  const log_signed = note.slice(text.length).trim().slice(0, SIGNED_LENGTH_MAX)
  log.error(
    { origin, size, root: Buffer.from(checkpoint.root).toString('base64'), cosigned_root, log_signed },
    'a log signed another tree than was cosigned of it: see docs/proof.md',
  )
}

const SIGNED_LENGTH_MAX = 2_000

function cosignatures({ name, keys }: Pick<Witness, 'name' | 'keys'>, text: string, time: number): string {
  return keys.map(key => signatureLine(cosign(text, { name, key, time }))).join('')
}
