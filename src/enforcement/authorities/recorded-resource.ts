/**
 * Owns what an authority has on record about this resource server, beside what the sidecar's file says:
 * grants that name another resource would all be refused, so this is found before an owner is asked.
 * Contract: "Protection access token (PAT)", "Resource server establishment: POST `/rs/register`".
 */
import type { ClientId, Owner } from '../../wire/identifiers.ts'
import { deadlineAt, type Deadline } from '../deadline.ts'

/** What the answer with a PAT says beside it. */
export interface PatRecord {
  /** The resource of the client; undefined if the authority does not say. */
  resource_uri: string | undefined
  /** How many milliseconds the clock of the authority is ahead of ours; undefined if it does not say. */
  aheadMs: number | undefined
}

export interface RecordedResourceOptions {
  authority: string
  owner: Owner
  client_id: ClientId
  /** What the sidecar serves. */
  resource: string
  /** Told once of each fault, in a sentence. */
  onFault?: ((sentence: string) => void) | undefined
  /** Told, in a sentence, that a fault of the record is over. */
  onMended?: ((sentence: string) => void) | undefined
}

export interface RecordedResource {
  note: (record: PatRecord) => void
  /** Why no call can work; undefined if nothing speaks against it. */
  fault: () => string | undefined
}

/** Half of the minute within which a signature must have been made. */
const AHEAD_MS_MAX = 30_000

export function createRecordedResource(options: RecordedResourceOptions): RecordedResource {
  const { authority, owner, client_id, onFault, onMended } = options
  let fault: string | undefined
  let isClockReported = false
  return {
    note: ({ resource_uri, aheadMs = 0 }) => {
      const before = fault
      fault = faultOf(options, resource_uri)
      if (fault !== undefined && fault !== before) onFault?.(fault)
      if (fault === undefined && before !== undefined)
        onMended?.(
          `${owner}: ${authority} no longer has another resource on record for the client_id ${client_id}, so calls can be let through again.`,
        )
      const isOff = Math.abs(aheadMs) > AHEAD_MS_MAX
      if (isOff && !isClockReported)
        onFault?.(
          `${owner}: the clock of ${authority} and the clock of this machine differ by ${Math.round(Math.abs(aheadMs) / 1000)} s. Signatures are taken within 60 s of this clock: set the clock that is wrong, by NTP.`,
        )
      isClockReported = isOff
    },
    fault: () => fault,
  }
}

function faultOf(
  { authority, owner, client_id, resource }: RecordedResourceOptions,
  recorded: string | undefined,
): string | undefined {
  if (recorded === undefined || recorded === resource) return undefined
  return `${owner}: this sidecar serves ${resource} (public_url, and path of this owner), but ${authority} has ${recorded} on record for the client_id ${client_id} (resource_uri in the file of UMA_AS_PROVISION, for a joint account of UMA_TALLY_PROVISION). No call can be let through: make the two equal.`
}

/** A client of an authority that may find a fault in what is on record there. */
interface RecordingClient {
  recordFault: () => string | undefined
  proveAnew: (deadline: Deadline) => Promise<void>
}

const PROOF_INTERVAL_MS = 10_000
const ANSWER_MS_MAX = 5_000

/**
 * Asks authorities whose record differs again and again, so that a corrected record is in force without a
 * restart here.
 */
export function watchRecords(
  clients: () => readonly RecordingClient[],
  everyMs = PROOF_INTERVAL_MS,
): { stop(): void } {
  const clock = (): number => performance.now()
  const timer = setInterval(() => {
    for (const client of clients())
      if (client.recordFault() !== undefined)
        client.proveAnew(deadlineAt(clock() + ANSWER_MS_MAX, clock)).catch(() => undefined)
  }, everyMs)
  timer.unref()
  return { stop: () => clearInterval(timer) }
}

/** Why no call at all can be let through; undefined if some can, or if no fault is known. */
export function faultOfAll(clients: readonly RecordingClient[]): string | undefined {
  const faults = clients.flatMap(client => client.recordFault() ?? [])
  return faults.length > 0 && faults.length === clients.length ? faults.slice(0, 3).join(' ') : undefined
}
