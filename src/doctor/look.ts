/**
 * Owns one check of `usher doctor`, and the checks of other parties that must be there. Contract: "Limits"
 * (clocks), "Authorization server metadata members".
 */
import { createOutbound, type Outbound } from '../http/outbound.ts'
import { checkMetadata, checkPeerClock } from './checks.ts'

/** Runs one check, prints its line, and returns what it found; undefined if it failed. */
export type Look = <T>(
  what: string,
  check: () => Promise<T> | T,
  said?: (found: T) => string,
) => Promise<T | undefined>

/** What is printed about usable settings. */
export const COMPLETE = (): string => 'they are complete, and its files can be read'

/**
 * Another party that must be there: the document in which it names itself, and the setting that names it
 * here.
 */
export interface Peer {
  /** Such as `authority`. */
  what: string
  issuer: string
  /** Path of the document. */
  document: string
  setting: string
}

/** Checks that a peer is reachable, names itself and has the right time. @returns its document, if so. */
export async function examinePeer(
  look: Look,
  outbound: Outbound,
  { what, issuer, document, setting }: Peer,
): Promise<Awaited<ReturnType<typeof checkMetadata>>['document'] | undefined> {
  const found = await look(
    `${what} ${issuer}`,
    () => checkMetadata(outbound, { url: issuer + document, issuer, setting }),
    () => 'it is reached, and names itself',
  )
  if (found !== undefined) await look(`clock of ${issuer}`, () => checkPeerClock(found.date, Date.now()))
  return found?.document
}

/** Does `work` with a client that is closed after it. */
export async function withOutbound(
  options: Parameters<typeof createOutbound>[0],
  work: (outbound: Outbound) => Promise<void>,
): Promise<void> {
  const outbound = createOutbound(options)
  try {
    await work(outbound)
  } finally {
    await outbound.close()
  }
}
