/**
 * Asks the authorization servers of holders: for quotes, and for verdicts. Contract: "Tally for a jointly
 * held resource" (`/joint/quote`, `/joint/verdict`). Their own metadata says where they are asked, at their
 * own origin.
 */
import { OutboundFault, type Outbound, type OutboundAnswer } from '../../http/outbound/outbound.ts'
import { BoundedMap } from '../../limits/bounded-map.ts'
import type { Owner } from '../../wire/identifiers.ts'
import { parseJson } from '../../wire/json.ts'
import type { PrivateKey } from '../../wire/signatures/keys.ts'
import {
  parseHolderMetadata,
  type HolderMetadata,
} from '../../wire/resources/authorization-server-metadata.ts'
import { WELL_KNOWN } from '../../wire/names.ts'
import { parseQuote, parseVerdictAnswer, type Quote, type VerdictAnswer } from '../../wire/documents/quote.ts'
import { signTallyRequest, TALLY_REQUEST_SECONDS, type VerdictRequest } from '../../wire/joint/verdict.ts'

/** A holder, and the subject of the question to her. */
export interface QuoteQuestion {
  owner: Owner
  issuer: string
  account: Owner
  resource_id: string
}

export type VerdictQuestion = QuoteQuestion &
  Pick<VerdictRequest, 'negotiation' | 'contract' | 'agreement' | 'final' | 'closed'>

/** `silent`: there was no readable answer, so she is asked again; `refused`: her server will not answer. */
export type HolderReply<T> = T | { refused: number } | { silent: string }

export interface HolderClient {
  quote(subject: QuoteQuestion, timeoutMs: number): Promise<HolderReply<Quote>>
  ask(question: VerdictQuestion): Promise<HolderReply<VerdictAnswer>>
}

export interface HolderClientOptions {
  /** The issuer of the tally. */
  issuer: string
  key: PrivateKey
  outbound: Outbound
  /** Seconds since the epoch. */
  now: () => number
}

const METADATA_SECONDS = 300
const HOLDERS_MAX = 1_000
/** For one answer of a holder: her server's address, and what is asked there. Less than her lease. */
export const HOLDER_TIMEOUT_MS = 4_000
/** This answer may be asked for again: it says nothing about the holder. */
const PASSING: ReadonlySet<number> = new Set([401, 408, 425, 429])

/** Caches the addresses of holders' servers, but none of their answers. */
export function createHolderClient(options: HolderClientOptions): HolderClient {
  const { issuer: iss, key, outbound, now } = options
  const found = new BoundedMap<string, { metadata: HolderMetadata; until: number }>(HOLDERS_MAX)

  const metadataOf = async (issuer: string, timeoutMs: number): Promise<HolderMetadata> => {
    const known = found.get(issuer)
    if (known !== undefined && now() < known.until) return known.metadata
    const json = await outbound.getJson(issuer + WELL_KNOWN.agentsConfiguration, { timeoutMs })
    const metadata = parseHolderMetadata(json, issuer)
    for (const url of [metadata.joint_quote_endpoint, metadata.joint_verdict_endpoint])
      if (new URL(url).origin !== new URL(issuer).origin)
        throw new Error(`${issuer} names an endpoint of another origin`)
    found.set(issuer, { metadata, until: now() + METADATA_SECONDS })
    return metadata
  }
  /** The answer to a signed request, or why there is none. */
  const send = async <T>(
    subject: QuoteQuestion | VerdictQuestion,
    endpoint: 'joint_quote_endpoint' | 'joint_verdict_endpoint',
    { timeoutMs, read }: { timeoutMs: number; read: (json: unknown) => T },
  ): Promise<HolderReply<T>> => {
    const { issuer, ...about } = subject
    const deadline = performance.now() + timeoutMs
    try {
      const url = (await metadataOf(issuer, timeoutMs))[endpoint]
      const iat = now()
      const claims = { iss, aud: issuer, iat, exp: iat + TALLY_REQUEST_SECONDS, ...about }
      const body = JSON.stringify({ request: signTallyRequest(claims, key) })
      const headers = { 'content-type': 'application/json' }
      const left = Math.ceil(deadline - performance.now())
      if (left <= 0) return { silent: 'its address took too long' }
      const answer = await outbound.request({ method: 'POST', url, headers, body, timeoutMs: left })
      // The server may have another address by now.
      if (answer.status === 404 || answer.status >= 500) found.delete(issuer)
      return replyOf(answer, read)
    } catch (error) {
      return { silent: error instanceof OutboundFault ? error.reason : (error as Error).message }
    }
  }
  return {
    quote: ({ owner, issuer, account, resource_id }, timeoutMs) =>
      send({ owner, issuer, account, resource_id }, 'joint_quote_endpoint', {
        timeoutMs,
        read: json => parseQuote(json, { owner, resource_id }),
      }),
    ask: question =>
      send(question, 'joint_verdict_endpoint', { timeoutMs: HOLDER_TIMEOUT_MS, read: parseVerdictAnswer }),
  }
}

function replyOf<T>({ status, body }: OutboundAnswer, read: (json: unknown) => T): HolderReply<T> {
  if (status === 200) return read(parseJson(body))
  if (status >= 400 && status < 500 && !PASSING.has(status)) return { refused: status }
  return { silent: `it answered ${status}` }
}
