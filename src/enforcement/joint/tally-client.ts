/**
 * Owns the request for the mandate of one account to its tally. Contract: "Tally for a jointly held resource"
 * (`/mandate/{account}`): the address comes from the tally's own metadata, below its own origin, and never
 * from a grant.
 */
import { OutboundFault, plainWords, type Outbound } from '../../http/outbound/outbound.ts'
import { countedMandate, type CountedMandate } from '../../rules/joint/mandate.ts'
import type { Owner } from '../../wire/identifiers.ts'
import { MANDATE_BYTES_MAX } from '../../wire/document-bounds.ts'
import type { Json } from '../../wire/json.ts'
import { parseMandate } from '../../wire/joint/mandate.ts'
import { parseTallyMetadata } from '../../wire/resources/authorization-server-metadata.ts'
import { WELL_KNOWN } from '../../wire/names.ts'
import type { Deadline } from '../deadline.ts'
import { outage } from '../outage.ts'

export interface TallyClientOptions {
  /** Its issuer. */
  tally: string
  account: Owner
  /** Names that are accepted beside the contract's. */
  aliases: readonly string[]
  outbound: Outbound
  /** Milliseconds that only go forward. */
  clock: () => number
}

/** What a tally serves: a mandate to count under, or why it cannot be used. */
export type MandateAnswer = CountedMandate | { fault: string }

const METADATA_MS = 300_000

/**
 * Asks for the mandate, once in 300 s also if it is to be had. Throws `temporarily_unavailable` if the
 * tally gives no answer that can be read.
 */
export function createTallyClient(
  options: TallyClientOptions,
): (deadline: Deadline) => Promise<MandateAnswer> {
  const { tally, account, aliases, clock } = options
  let found: { endpoint: string; at: number } | undefined
  const endpoint = async (deadline: Deadline): Promise<string> => {
    if (found !== undefined && clock() - found.at < METADATA_MS) return found.endpoint
    const at = clock()
    const metadata = await get(tally + WELL_KNOWN.agentsConfiguration, options, deadline)
    found = { endpoint: readable(() => mandateEndpoint(metadata, tally, aliases)), at }
    return found.endpoint
  }
  return async deadline => {
    const base = await endpoint(deadline)
    try {
      const served = await get(`${base}/${encodeURIComponent(account)}`, options, deadline)
      return countedMandate(readable(() => parseMandate(served)))
    } catch (error) {
      // The tally may serve it at another address by now.
      found = undefined
      throw error
    }
  }
}

async function get(url: string, { outbound }: TallyClientOptions, deadline: Deadline): Promise<Json> {
  const timeoutMs = deadline.remainingMs()
  if (timeoutMs <= 0) throw outage('There was no time left to ask the tally.')
  return outbound.getJson(url, { timeoutMs, responseBytesMax: MANDATE_BYTES_MAX }).catch((error: unknown) => {
    if (!(error instanceof OutboundFault)) throw error
    throw outage(`The tally could not be asked: ${plainWords(error)}.`, error)
  })
}

function mandateEndpoint(metadata: Json, tally: string, aliases: readonly string[]): string {
  const { ext_mandate_endpoint } = parseTallyMetadata(metadata, tally, aliases)
  if (new URL(ext_mandate_endpoint).origin !== new URL(tally).origin)
    throw new Error('its mandates are at another origin')
  return ext_mandate_endpoint.replace(/\/$/, '')
}

function readable<T>(read: () => T): T {
  try {
    return read()
  } catch (cause) {
    throw outage('The tally answered in a form that cannot be read.', cause)
  }
}
