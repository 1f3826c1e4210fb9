/**
 * Owns the connections to authorities. Contract: "Protection API (resource servers only, PAT-authorized)" and
 * "Authorized call": two pools, so that a flood of challenges leaves introspection and consume theirs; each
 * of them may know several replicas of an authority.
 */
import {
  createOutbound,
  jsonReader,
  OutboundFault,
  type Outbound,
  type OutboundAnswer,
} from '../../http/outbound/outbound.ts'
import { createOutboundStreams, type OutboundStreams } from '../../http/outbound/outbound-stream.ts'
import type { OutboundOptions } from '../../http/outbound/outbound-reach.ts'
import {
  streamsWithReplicas,
  trackReplicas,
  withReplicas,
  type ReplicaAddresses,
  type ReplicaObserver,
} from '../../http/outbound/replicas.ts'
import { traceOutbound, type Tracing } from '../../http/telemetry/tracing.ts'
import { LEASES_PATH } from '../../wire/resources/leases.ts'
import { ORGANIZATION_PATH, TALLY_PATH } from '../../wire/names.ts'
import type { AuthorityCall } from '../telemetry/metrics.ts'

export interface AuthorityPools {
  challenges: Outbound
  grants: Outbound
  /** The streams on which authorities send without being asked. */
  streams: OutboundStreams
  close(): Promise<void>
}

export interface AuthorityPoolsOptions {
  devLoopback: boolean
  /** Trusted beside the usual ones, as it is at each connect. */
  ca?: (() => Buffer) | undefined
  addresses: ReplicaAddresses
  observer: ReplicaObserver
  /** Told of every request to an authority, once, however many addresses were tried. */
  onCall: (call: AuthorityCall) => void
  tracing: Tracing | undefined
}

const CONNECTIONS = { challenges: 16, grants: 128 }
/** The size of an answer about a grant, which may carry verdicts, or the item that its owner signed. */
const GRANT_BYTES_MAX = 262_144
const CONNECT_TIMEOUT_MS = 1_000
/**
 * Shorter than an authority continues to answer after it was told to end (UMA_AS_DRAIN_MS): a connection that
 * nobody uses is ended by us, and never by the authority in the moment in which a consume is written to it.
 */
const IDLE_MS = 3_000
/** Behind one name, new replicas are found by connecting anew. */
const CONNECTION_AGE_MS = 60_000

const CALLS = new Map([
  ['/introspect', 'introspect'],
  ['/consume', 'consume'],
  ['/perm', 'perm'],
  ['/token', 'token'],
  ['/audit/access', 'report'],
  ['/rs/register', 'register'],
  ['/jwks', 'jwks'],
] as const)

/** Connects to nobody until first use. */
export function openAuthorityPools(options: AuthorityPoolsOptions): AuthorityPools {
  const { addresses, observer, onCall, tracing } = options
  const challenges = open(CONNECTIONS.challenges, options)
  const grants = open(CONNECTIONS.grants, options, GRANT_BYTES_MAX)
  const streams = createOutboundStreams(reachOf(options))
  const replicas = trackReplicas({ outbound: challenges, addresses, observer })
  const complete = (plain: Outbound): Outbound => {
    const measured = measure(addresses.size === 0 ? plain : withReplicas(plain, replicas), onCall)
    return tracing === undefined ? measured : traceOutbound(measured, tracing)
  }
  return {
    challenges: complete(challenges),
    grants: complete(grants),
    streams: addresses.size === 0 ? streams : streamsWithReplicas(streams, replicas),
    close: async () => {
      replicas.stop()
      await Promise.all([challenges.close(), grants.close(), streams.close()])
    },
  }
}

function open(connections: number, options: AuthorityPoolsOptions, responseBytesMax?: number): Outbound {
  return createOutbound({
    ...reachOf(options),
    connections,
    idleMs: IDLE_MS,
    connectionAgeMs: CONNECTION_AGE_MS,
    ...(responseBytesMax === undefined ? {} : { responseBytesMax }),
  })
}

function reachOf({ devLoopback, ca }: AuthorityPoolsOptions): OutboundOptions {
  return {
    devLoopback,
    connectTimeoutMs: CONNECT_TIMEOUT_MS,
    ...(ca === undefined ? {} : { ca }),
  }
}

function measure(outbound: Outbound, onCall: (call: AuthorityCall) => void): Outbound {
  const request: Outbound['request'] = target => {
    const sentAt = performance.now()
    const report = (outcome: AuthorityCall['outcome']): void =>
      onCall({ call: nameOf(target.url), outcome, seconds: (performance.now() - sentAt) / 1_000 })
    return outbound.request(target).then(
      answer => {
        report(outcomeOf(answer))
        return answer
      },
      (error: unknown) => {
        report(error instanceof OutboundFault ? error.reason : 'broken')
        throw error
      },
    )
  }
  return { ...outbound, request, getJson: jsonReader(request) }
}

function nameOf(url: string): AuthorityCall['call'] {
  for (const [path, name] of CALLS) if (url.endsWith(path)) return name
  if (url.includes(`${ORGANIZATION_PATH.membership}/`)) return 'membership'
  if (url.includes(`${LEASES_PATH}/`)) return 'lease'
  return url.includes(`${TALLY_PATH.mandate}/`) ? 'mandate' : 'other'
}

function outcomeOf({ status }: OutboundAnswer): AuthorityCall['outcome'] {
  return status < 300 ? 'answered' : status < 500 ? 'refused' : 'failed'
}
