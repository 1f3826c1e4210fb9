/**
 * Owns what the processes of the bench tell each other: where the measured parts are, who the known agents
 * are, and the result of a round.
 */
import type { PrivateJwk } from '../src/wire/signatures/keys.ts'
import type { ClientId, Handle, Owner } from '../src/wire/identifiers.ts'

/** An agent that the owner has admitted; its standing grant was negotiated with the authority. */
export interface KnownAgent {
  jwk: PrivateJwk
  handle: Handle
  /** The RPT of a standing grant for the reading tool. */
  rpt: string
  /** Of its connection. */
  generation: number
}

/** All that a load process must know; plain data. */
export interface World {
  publicUrl: string
  /** RFC 9728 resource value of the owner's tools, and its path. */
  resource: string
  path: string
  ports: {
    sidecar: number
    otherSidecar: number
    keepingSidecar: number
    leasingSidecar: number
    noop: number
    verify: number
  }
  issuer: string
  owner: Owner
  clientId: ClientId
  clientSecret: string
  authorityKeysFile: string
  databaseUrl: string
  /** Most connections to Postgres of the authority, and of the bare negotiation that it is compared with. */
  poolMax: number
  agents: KnownAgent[]
}

/** What a resource server of an owner must know to ask her authority. */
export type WorldOfOwner = Pick<World, 'issuer' | 'owner' | 'clientId' | 'clientSecret'>

/** How a load process is to load: its share of the calls in flight, and the connections they go over. */
export interface Share {
  inFlight: number
  connections: number
}

/** What one load process saw in one round; times in milliseconds. */
export interface RoundPart {
  calls: number
  elapsedMs: number
  /**
   * In a closed loop from the sending; in an open loop from when the call was due, so that waiting to be sent
   * counts.
   */
  latencies: Float64Array
  /** Of an open loop: calls that were due and not begun, because too many were unanswered. */
  skipped: number
}

/** What is asked of a load process, one thing at a time. */
export type LoadOrder =
  | { order: 'open'; scenario: string; world: World; share: Share }
  /** Makes what the coming round will send, signed now: at most so many calls. */
  | { order: 'prepare'; calls: number }
  /**
   * With a rate: an open loop, whose calls begin when they are due, whether or not earlier ones were
   * answered.
   */
  | { order: 'run'; seconds: number; callsPerSecond: number | undefined }

export type LoadReply = { done: RoundPart | undefined } | { failed: string }

/** A scenario inside a load process. */
export interface Load {
  prepare(calls: number): Promise<void>
  /**
   * The next call, which rejects unless the answer is exactly the expected one; undefined if nothing is left
   * to call.
   */
  next(): Promise<void> | undefined
}

/** One thing that is measured: known to the runner by its numbers, opened in load processes of its own. */
export interface Scenario {
  /** Its key in the JSON. */
  name: string
  title: string
  /** Load processes that share the calls in flight. */
  processes: number
  /** Whether each call ends in the owner's ledger, off the call's path. */
  reported: boolean
  /**
   * Of an open loop: so many calls a second, or half of what another scenario reached in its closed loop.
   * Left out: a closed loop.
   */
  pace?: { callsPerSecond: number } | { halfOf: string }
  /** The fraction of a round's length, if it need not be a whole round. */
  share?: number
  open(world: World, share: Share): Promise<Load>
}
