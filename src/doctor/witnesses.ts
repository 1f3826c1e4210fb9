/**
 * Owns what `usher doctor` says of the witnesses that an authority names: each is reached, cosigns by the key
 * that is configured, and has the heads of the ledgers. It is shown only a head that it knows already, so
 * nothing new is cosigned. docs/details/ledger.md, "Witnesses". Contract: "Events" (row 5).
 */
import type { Outbound } from '../http/outbound/outbound.ts'
import {
  readWitnessRecord,
  type HeadOfWitness,
  type WitnessRecord,
} from '../storage/authority/ledger/witnessed-heads.ts'
import { ADD_CHECKPOINT_PATH, encodeAddCheckpoint, parseTreeSize } from '../wire/ledger/add-checkpoint.ts'
import { readCosignature, verifyCosignatures } from '../wire/ledger/cosignature.ts'
import { parseNote } from '../wire/ledger/signed-note.ts'
import type { VerifierKey } from '../wire/ledger/verifier-key.ts'
import { Refusal } from '../wire/refusal.ts'
import { ask, Unwell } from './checks.ts'
import type { Look } from './look.ts'

/** A witness as an authority is configured with it. */
interface NamedWitness {
  url: string
  key: VerifierKey
}

const SETTING = 'UMA_AS_WITNESSES'

/** Looks at each of them; `databases` are the URLs of those that can be read. */
export async function examineWitnesses(
  look: Look,
  outbound: Outbound,
  { witnesses, databases }: { witnesses: readonly NamedWitness[]; databases: readonly string[] },
): Promise<void> {
  for (const witness of witnesses)
    await look(`witness ${witness.url}`, async () => {
      const records = await Promise.all(databases.map(url => readWitnessRecord(url, witness.key)))
      return checkWitness(outbound, witness, records)
    })
}

async function checkWitness(
  outbound: Outbound,
  witness: NamedWitness,
  records: readonly WitnessRecord[],
): Promise<string> {
  const heads = records.flatMap(({ head }) => (head === undefined ? [] : [timed(head, witness)]))
  const [newest] = heads.toSorted((one, other) => (other.time ?? 0) - (one.time ?? 0))
  const found =
    newest === undefined ? await checkUnknown(outbound, witness) : await checkKey(outbound, witness, newest)
  const behind = records.reduce((sum, record) => sum + record.behind, 0)
  if (behind > 0)
    throw new Unwell(
      `${found}, but heads that were signed over an hour ago are not there, of so many ledgers: ${behind}. The log of the authority says what it answered.`,
    )
  return found
}

/** When it cosigned the head, in seconds; undefined if what is kept is no cosignature of its key. */
function timed(head: HeadOfWitness, { key }: NamedWitness): HeadOfWitness & { time: number | undefined } {
  const [cosignature] = readable(() => verifyCosignatures(head.note + head.cosignatures, [key])) ?? []
  return { ...head, time: cosignature?.time }
}

/** A witness answers to what is no request, too. `setting` names where the address is configured. */
export async function checkTakesHeads(
  outbound: Outbound,
  { url, setting }: { url: string; setting: string },
): Promise<void> {
  const { status } = await post(outbound, { url, setting, body: '' })
  if (status !== 400)
    throw new Unwell(
      `it answers with status ${status} to what is no request of a log, where a witness answers 400. Correct ${setting}: the address is the one before ${ADD_CHECKPOINT_PATH}.`,
    )
}

/** One that has no head of ours so far can only be reached. */
async function checkUnknown(outbound: Outbound, { url }: NamedWitness): Promise<string> {
  await checkTakesHeads(outbound, { url, setting: SETTING })
  return 'it is reached, and has cosigned no head of a ledger yet'
}

/** The head that it knows is cosigned once more, by the configured key. */
async function checkKey(
  outbound: Outbound,
  { url, key }: NamedWitness,
  { size, note, time }: ReturnType<typeof timed>,
): Promise<string> {
  const request = encodeAddCheckpoint({ oldSize: size, proof: [], note })
  const { status, body } = await post(outbound, { url, setting: SETTING, body: request })
  const last =
    time === undefined
      ? ''
      : `; the last cosignature that is kept is of ${new Date(time * 1_000).toISOString()}, over ${size} entries`
  if (status === 200) {
    const { text } = parseNote(note)
    if (readable(() => readCosignature(body.toString(), text, key)) !== undefined)
      return `it cosigns by the key that is configured${last}`
    throw new Unwell(
      `it does not cosign by the key ${key.name}+${key.keyId.toString('hex')}. Ask whoever runs it for its verifier key (\`usher witness keys\` there), and correct ${SETTING}.`,
    )
  }
  const named = status === 409 ? readable(() => parseTreeSize(body.toString())) : undefined
  if (named !== undefined && named > size) return `it is reached, and has a newer head${last}`
  if (named !== undefined) throw new Unwell(contradiction(named, size))
  throw new Unwell(REFUSED[status] ?? `it answers with status ${status} to a head that it knows${last}.`)
}

const contradiction = (named: number, size: number): string =>
  named === size
    ? 'it has cosigned another tree of this size. See docs/proof.md: somebody else signs, or commits were lost.'
    : `it has forgotten a head of ${size} entries, and names one of ${named}: its database is an older one, so its key is worth nothing any more. Tell whoever runs it (docs/details/witness.md).`

const REFUSED: Readonly<Record<number, string>> = {
  403: 'it takes no signature by the keys of the log. Whoever runs it puts the keys of /ledger/jwks into its file.',
  404: 'it takes no ledgers of this issuer, or no more of them. Whoever runs it adds the issuer to its file, or raises max_origins; or correct the address in UMA_AS_WITNESSES.',
  429: 'it is asked too often from this address. Try again in a minute.',
}

function post(
  outbound: Outbound,
  { url, setting, body }: { url: string; setting: string; body: string },
): ReturnType<typeof ask> {
  return ask(outbound, setting, {
    method: 'POST',
    url: url + ADD_CHECKPOINT_PATH,
    headers: { 'content-type': 'text/plain; charset=utf-8' },
    body,
  })
}

/** Undefined for what cannot be read. */
function readable<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return undefined
  }
}
