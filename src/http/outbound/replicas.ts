/**
 * Owns sending to one of several replicas of a peer. Contract: "Authorized call": a peer is known by its one
 * URL, and only that URL is compared and signed; the addresses where it is reached are configured separately.
 * A request that may have arrived is never sent twice, unless that does no harm.
 */
import {
  jsonReader,
  OutboundFault,
  type Outbound,
  type OutboundAnswer,
  type OutboundReason,
  type OutboundRequest,
} from './outbound.ts'
import type { OpenedStream, OutboundStreams } from './outbound-stream.ts'

/**
 * The addresses of peers' replicas: origins in order of preference, by the URL (scheme and authority) by
 * which the peer is known.
 */
export type ReplicaAddresses = ReadonlyMap<string, readonly string[]>

/** Callbacks about the addresses. */
export interface ReplicaObserver {
  /** An address is preferred again, or is used only if no other is left. */
  changed(address: string, up: boolean, why: string): void
  /** A request goes to another address than the one before. */
  failedOver(reason: string): void
}

export interface ReplicaOptions {
  addresses: ReplicaAddresses
  observer: ReplicaObserver
  /** The client that checks failed addresses. */
  outbound: Outbound
  /** How long after a failure an address is first checked, in milliseconds; 1,000 if left out. */
  probeMs?: number
}

/** What is known about the addresses of all peers, shared by any number of clients. */
export interface Replicas {
  /**
   * The addresses of the peer that a URL belongs to, and the path at it; undefined if it belongs to none.
   */
  find(url: string): { addresses: readonly Address[]; path: string } | undefined
  observer: ReplicaObserver
  /** Stops all checks. */
  stop(): void
}

const PROBE_MS = { first: 1_000, most: 15_000, answer: 1_000 }
const TIMEOUT_MS = 5_000
const UNAVAILABLE = new Set([502, 503, 504])
/** The fault is in the address, not in the request. */
const ADDRESS_FAULTS = new Set<OutboundReason>(['unreachable', 'timeout', 'broken'])

/**
 * At first, every address counts as healthy. An address that fails, closes (`connection: close`) or answers
 * 502 to 504 is skipped until its `/health` says 200, unless all are failing.
 */
export function trackReplicas(options: ReplicaOptions): Replicas {
  const peers = [...options.addresses].map(([url, addresses]) => ({
    prefix: `${url}/`,
    addresses: addresses.map(origin => trackAddress(origin, options)),
  }))
  return {
    find: url => {
      const peer = peers.find(({ prefix }) => url.startsWith(prefix))
      return peer && { addresses: peer.addresses, path: url.slice(peer.prefix.length - 1) }
    },
    observer: options.observer,
    stop: () => {
      for (const { addresses } of peers) for (const address of addresses) address.forget()
    },
  }
}

/**
 * The client, with every request to a known peer sent to the first of its addresses that works. A request
 * that has not been sent is retried at the next address, and so is a `repeatable` one; all attempts share the
 * time limit of one request.
 */
export function withReplicas(outbound: Outbound, replicas: Replicas): Outbound {
  const { observer } = replicas
  const request: Outbound['request'] = message => {
    const found = replicas.find(message.url)
    if (found === undefined) return outbound.request(message)
    return sendInTurn(found.addresses, { outbound, message, path: found.path, observer })
  }
  return { ...outbound, request, getJson: jsonReader(request) }
}

/**
 * The same for streams: one is opened at the first address that works and has room for it. A request that may
 * have arrived is sent to the next one all the same.
 */
export function streamsWithReplicas(streams: OutboundStreams, replicas: Replicas): OutboundStreams {
  return {
    ...streams,
    open: message => {
      const found = replicas.find(message.url)
      if (found === undefined) return streams.open(message)
      return openInTurn(found.addresses, address =>
        streams.open({ ...message, url: address.origin + found.path }),
      )
    },
  }
}

/** One address of a peer. */
export interface Address {
  origin: string
  up: boolean
  /** Skips it until it is healthy again. */
  fail(why: string): void
  forget(): void
}

function trackAddress(
  origin: string,
  { outbound, observer, probeMs = PROBE_MS.first }: ReplicaOptions,
): Address {
  let timer: NodeJS.Timeout | undefined
  let forgotten = false
  const probe = async (waitMs: number): Promise<void> => {
    const url = `${origin}/health`
    const well = await outbound.request({ url, timeoutMs: PROBE_MS.answer }).then(
      ({ status }) => status === 200,
      () => false,
    )
    if (forgotten) return
    if (!well) return lookAfter(Math.min(PROBE_MS.most, waitMs * 2))
    address.up = true
    observer.changed(origin, true, 'it is healthy')
  }
  const lookAfter = (waitMs: number): void => {
    timer = setTimeout(() => void probe(waitMs), waitMs)
    timer.unref()
  }
  const address: Address = {
    origin,
    up: true,
    fail: why => {
      if (!address.up || forgotten) return
      address.up = false
      observer.changed(origin, false, why)
      lookAfter(probeMs)
    },
    forget: () => {
      forgotten = true
      clearTimeout(timer)
    },
  }
  observer.changed(origin, true, 'it is configured')
  return address
}

interface ReplicaRequest {
  outbound: Outbound
  message: OutboundRequest
  path: string
  observer: ReplicaObserver
}

async function sendInTurn(addresses: readonly Address[], sending: ReplicaRequest): Promise<OutboundAnswer> {
  const { outbound, message, path, observer } = sending
  const repeatable = message.repeatable ?? (message.method ?? 'GET') === 'GET'
  const endsAt = performance.now() + (message.timeoutMs ?? TIMEOUT_MS)
  const inTurn = turnsOf(addresses)
  for (const [index, address] of inTurn.entries()) {
    const isLast = index === inTurn.length - 1
    const left = endsAt - performance.now()
    // A hanging address must leave enough time for the next one; a request that cannot go to a next one gets
    // all the time.
    const timeoutMs = isLast || !repeatable ? left : left / 2
    try {
      const answer = await outbound.request({ ...message, url: address.origin + path, timeoutMs })
      if (answer.headers.connection === 'close') address.fail('it closes its connections')
      if (isLast || !repeatable || !UNAVAILABLE.has(answer.status)) return answer
      address.fail(`it answered ${answer.status}`)
      observer.failedOver('unavailable')
    } catch (error) {
      if (!(error instanceof OutboundFault) || !ADDRESS_FAULTS.has(error.reason)) throw error
      address.fail(error.message)
      if (isLast || (error.sent && !repeatable)) throw error
      observer.failedOver(error.reason)
    }
  }
  throw noAddress()
}

/** One that has no room for a further stream may be well in all else, and is not passed over for it. */
async function openInTurn(
  addresses: readonly Address[],
  open: (address: Address) => Promise<OpenedStream>,
): Promise<OpenedStream> {
  const inTurn = turnsOf(addresses)
  for (const [index, address] of inTurn.entries()) {
    const isLast = index === inTurn.length - 1
    try {
      const opened = await open(address)
      if (isLast || !UNAVAILABLE.has(opened.status)) return opened
    } catch (error) {
      if (!(error instanceof OutboundFault) || !ADDRESS_FAULTS.has(error.reason)) throw error
      address.fail(error.message)
      if (isLast) throw error
    }
  }
  throw noAddress()
}

/** Those that are well first. */
function turnsOf(addresses: readonly Address[]): Address[] {
  return [...addresses.filter(({ up }) => up), ...addresses.filter(({ up }) => !up)]
}

function noAddress(): OutboundFault {
  return new OutboundFault('unreachable', 'no address is configured', { sent: false })
}
