/**
 * Owns one check of `usher doctor`, and the checks of other parties that must be there. Contract: "Limits"
 * (clocks), "Authorization server metadata members".
 */
import { createOutbound, type Outbound } from '../http/outbound/outbound.ts'
import { checkMetadata, checkPeerClock } from './checks.ts'

/** Runs one check, prints its line, and returns what it found; undefined if it failed. */
export type Look = <T>(
  what: string,
  check: () => Promise<T> | T,
  toText?: (found: T) => string,
) => Promise<T | undefined>

/** What is printed about usable settings. */
export const COMPLETE = (): string => 'they are complete, and its files can be read'

/**
 * Another party that must be there: the document in which it names itself, and the setting that names it
 * here.
 */
export interface Peer {
  /** The kind of peer, such as `authority`. */
  what: string
  issuer: string
  /** Path of the document. */
  document: string
  /** A further path, of other software, that is looked at if the document is not there. */
  alias?: string | undefined
  setting: string
}

/** Checks that a peer is reachable, names itself and has the right time. @returns its document, if so. */
export async function examinePeer(
  look: Look,
  outbound: Outbound,
  peer: Peer,
): Promise<Awaited<ReturnType<typeof checkMetadata>>['document'] | undefined> {
  const { what, issuer } = peer
  const found = await look(
    `${what} ${issuer}`,
    () => ownMetadata(outbound, peer),
    () => 'it is reached, and names itself',
  )
  if (found !== undefined) await look(`clock of ${issuer}`, () => checkPeerClock(found.date, Date.now()))
  return found?.document
}

/** If it is at neither path, the fault is that of the first. */
async function ownMetadata(
  outbound: Outbound,
  { issuer, document, alias, setting }: Peer,
): ReturnType<typeof checkMetadata> {
  const at = (path: string) => checkMetadata(outbound, { url: issuer + path, issuer, setting })
  try {
    return await at(document)
  } catch (error) {
    if (alias === undefined) throw error
    return at(alias).catch(() => Promise.reject(error as Error))
  }
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
