/**
 * Owns how a command asks an authority whether heads of a ledger continue another one: a public call, without
 * credentials. docs/choices.md, "Checkpoints of the ledger". Contract: "Events" (row 5).
 */
import { UsageError } from '../terminal/command.ts'
import { connectionWords } from '../terminal/connection-words.ts'
import { encodeBase64url } from '../wire/encoding.ts'
import { isJsonObject, jsonIn, type Json, type JsonObject } from '../wire/json.ts'
import type { Checkpoint } from '../wire/ledger/checkpoint.ts'
import { logOfOrigin, type LedgerHead } from '../wire/ledger/ledger-head.ts'
import { isLoopbackHost } from '../wire/loopback.ts'
import { CONSISTENCY_PATH } from '../wire/names.ts'

const HASH_BYTES = 32
const ANSWER_MS_MAX = 30_000
/** More than any proof has: two hashes for each height of a tree. */
const ANSWER_BYTES_MAX = 64 * 1_024

/**
 * What came: the proofs by the `root` of the head, the roots about which there is none, and in a sentence why
 * nothing is known of others.
 */
export interface FetchedProofs {
  proofs: ReadonlyMap<string, readonly Uint8Array[]>
  none: ReadonlySet<string>
  outage: string | undefined
}

/**
 * Asks the authority at `issuer` for the proof between the checkpoint and each head, from the smaller to the
 * larger. A head for which it says that there is no proof has none; that it does not answer is an outage.
 * Nothing is verified here. @throws UsageError unless the address is https, or http on a loopback host.
 */
export async function fetchProofs(
  issuer: string,
  checkpoint: Checkpoint,
  heads: readonly LedgerHead[],
): Promise<FetchedProofs> {
  const url = addressOf(issuer, checkpoint.origin)
  const own = { size: checkpoint.size, root: encodeBase64url(checkpoint.root) }
  const proofs = new Map<string, readonly Uint8Array[]>()
  const none = new Set<string>()
  for (const { size, root } of heads) {
    if (proofs.has(root) || none.has(root)) continue
    const [from, to] = size < own.size ? [{ size, root }, own] : [own, { size, root }]
    const answer = await ask(url, { from, to })
    if (typeof answer === 'string') return { proofs, none, outage: answer }
    if (answer === undefined) none.add(root)
    else proofs.set(root, answer)
  }
  return { proofs, none, outage: undefined }
}

function addressOf(issuer: string, origin: string): URL {
  const url = URL.parse(issuer)
  const isPlain = url?.protocol === 'http:' && isLoopbackHost(url.hostname)
  if (url === null || (url.protocol !== 'https:' && !isPlain))
    throw new UsageError(`Give --fetch the issuer of the authority, an https URL, not ${issuer}.`)
  const tag = logOfOrigin(origin).split('/').at(-1)!
  url.pathname = url.pathname.replace(/\/+$/, '') + CONSISTENCY_PATH.replace('{tag}', encodeURIComponent(tag))
  return url
}

/** The proof; undefined if the authority has none; or why nobody knows. */
async function ask(url: URL, heads: object): Promise<readonly Uint8Array[] | undefined | string> {
  let response: Response
  let text: string
  try {
    response = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'application/json' },
      body: JSON.stringify(heads),
      redirect: 'manual',
      signal: AbortSignal.timeout(ANSWER_MS_MAX),
    })
    text = await readBounded(response)
  } catch (cause) {
    const why = connectionWords(cause)
    return `${url.origin} cannot be asked for a proof${why === undefined ? '. Try again.' : `: ${why}`}`
  }
  const { status } = response
  if (status === 404 && isNoProof(objectIn(text))) return undefined
  if (status !== 200 && status !== 404)
    return `${url.origin} answered with status ${status} in place of a proof: try again later.`
  const { proof } = objectIn(text)
  return hashesOf(status === 200 ? proof : undefined) ?? `${url.origin} serves no proofs: ${SEE_TO_ISSUER}`
}

const SEE_TO_ISSUER = 'see that this is the issuer of the ledger, and that it has keys of the log.'

/** What an authority answers that knows the log; another path, or another server, answers otherwise. */
function isNoProof({ error, error_description: words }: JsonObject): boolean {
  return error === 'not_found' && typeof words === 'string' && !words.startsWith('Nothing is served')
}

function hashesOf(proof: Json | undefined): readonly Uint8Array[] | undefined {
  if (!Array.isArray(proof)) return undefined
  const hashes = proof.map(hash => (typeof hash === 'string' ? Buffer.from(hash, 'base64url') : undefined))
  return hashes.every(hash => hash?.length === HASH_BYTES) ? (hashes as Buffer[]) : undefined
}

function objectIn(text: string): JsonObject {
  const value = jsonIn(text)
  return isJsonObject(value) ? value : {}
}

async function readBounded(response: Response): Promise<string> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of response.body ?? []) {
    bytes += chunk.byteLength
    if (bytes > ANSWER_BYTES_MAX) throw new Error('the answer is larger than any proof')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString()
}
