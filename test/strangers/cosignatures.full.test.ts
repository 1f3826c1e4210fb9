/**
 * Cosignatures of witnesses (C2SP `tlog-cosignature`) by programs that know nothing of ours: Go's
 * `sumdb/note` with torchwood and with the formats of transparency-dev. They open what our witness cosigned,
 * and we verify what they cosign. docs/details/witness.md; docs/details/ledger.md, "The file of a ledger".
 * Contract: "Events" (row 5).
 */
import { expect, it } from 'vitest'
import { fetchProofs } from '../../src/client/consistency-proofs.ts'
import { verifyLedgerFile } from '../../src/terminal/verify-ledger.ts'
import { encodeAddCheckpoint } from '../../src/wire/ledger/add-checkpoint.ts'
import { verifyCosignatures } from '../../src/wire/ledger/cosignature.ts'
import { parseNote } from '../../src/wire/ledger/signed-note.ts'
import { encodeVerifierKey, parseWitnessKey } from '../../src/wire/ledger/verifier-key.ts'
import { generatePrivateJwk, importPrivateJwk, publicJwk } from '../../src/wire/signatures/keys.ts'
import { goProgram } from '../support/go.ts'
import { endOf, filesToVerify, KEYS } from '../support/ledger-to-verify.ts'
import { describeWith } from '../support/requirement.ts'
import { ledgerFileOf, LOG_KEY, ORIGIN, sampleEntries, textOf } from '../support/sample-ledger.ts'
import { startedOnce } from '../support/started.ts'
import { issuerOf, startTestWitness } from '../support/witness.ts'

const LIBRARIES = ['formats', 'torchwood']
interface Opened {
  text?: string
  time?: number
  error?: string
}
interface Cosigned {
  note: string
  witness: string
  time: number
}

const ledger = ledgerFileOf(sampleEntries(300))
const log = encodeVerifierKey({ name: ORIGIN, type: 'ed25519', key: LOG_KEY })
const { text } = parseNote(ledger.checkpoint)
const { fileOf } = filesToVerify('cosigned')
const witness = startedOnce(() =>
  startTestWitness({
    issuers: [issuerOf({ log_keys: [publicJwk(LOG_KEY)] })],
    keys: [generatePrivateJwk(), generatePrivateJwk()],
  }),
)

/** The head with the cosignatures that our witness makes of it, one by each of its keys. */
async function cosignedByOurs(): Promise<string> {
  const sent = { proof: [], note: ledger.checkpoint }
  const first = await witness.add(encodeAddCheckpoint({ oldSize: 0, ...sent }))
  const answer =
    first.status === 409 ? await witness.add(encodeAddCheckpoint({ oldSize: 300, ...sent })) : first
  expect(answer.status).toBe(200)
  return ledger.checkpoint + answer.text
}

describeWith(goProgram(), 'Cosignatures, by Go', ask => {
  const open = async (note: string, vkey: string) =>
    Object.entries((await ask({ open: { note, log, witness: vkey } })) as Record<string, Opened>)
  const sign = async (seed: Buffer) =>
    Object.entries(
      (await ask({
        sign: { note: ledger.checkpoint, log, name: 'go.example/w1', seed: seed.toString('base64') },
      })) as Record<string, Cosigned>,
    )

  it('that our witness made are opened by each of its verifier keys, with the time that it says', async () => {
    const note = await cosignedByOurs()
    for (const key of witness.keys) {
      const [ours] = verifyCosignatures(note, [key])
      const opened = await open(note, encodeVerifierKey(key))
      expect(opened.toSorted()).toEqual(LIBRARIES.map(library => [library, { text, time: ours!.time }]))
    }
  })

  it('that our witness made are none over another head, with another time, or by another key', async () => {
    const note = await cosignedByOurs()
    const [key] = witness.keys
    const lines = note.split('\n')
    const at = lines.findIndex(line => line.startsWith(`— ${key!.name} `))
    const bytes = Buffer.from(lines[at]!.split(' ')[2]!, 'base64')
    bytes[11]! ^= 1
    const later = lines.with(at, `— ${key!.name} ${bytes.toString('base64')}`).join('\n')
    const other = ledgerFileOf(sampleEntries(299)).checkpoint
    const stranger = importPrivateJwk(generatePrivateJwk())
    const tries: [string, string][] = [
      [other + note.slice(ledger.checkpoint.length), encodeVerifierKey(key!)],
      [later, encodeVerifierKey(key!)],
      [note, encodeVerifierKey({ ...key!, key: stranger })],
    ]
    for (const [changed, vkey] of tries)
      expect((await open(changed, vkey)).toSorted()).toEqual(
        LIBRARIES.map(library => [library, { error: expect.any(String) as string }]),
      )
  })

  it('that Go made are verified in the file of a ledger, by the verifier key that Go wrote', async () => {
    const made = await sign(Buffer.alloc(32, 7))
    expect(made.map(([library]) => library).toSorted()).toEqual(LIBRARIES)
    for (const [, { note, witness: vkey, time }] of made) {
      expect(encodeVerifierKey(parseWitnessKey(vkey))).toBe(vkey)
      const file = fileOf(textOf({ ...ledger, checkpoint: note }))
      const keys = fileOf(JSON.stringify({ ...KEYS, witnesses: [vkey] }))
      const { code, printed } = await endOf(terminal =>
        verifyLedgerFile(file, { keys }, { terminal, now: 1_900_000_000, fetchProofs }),
      )
      expect(code).toBe(0)
      expect(printed).toContain(
        `\ngo.example/w1 cosigned this head at ${new Date(time * 1_000).toISOString()}: `,
      )
    }
  })
})
