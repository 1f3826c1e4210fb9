/**
 * Owns sending to one of several replicas of a peer. Contract: "Authorized call": a peer stays known by its
 * one URL, which alone is compared and signed; where it is reached is configured beside it. What may have
 * arrived is never sent twice, unless that can do no harm.
 */
import {
  jsonReader,
  OutboundFault,
  type Outbound,
  type OutboundAnswer,
  type OutboundReason,
  type OutboundRequest,
} from './outbound.ts'

/**
 * Where the replicas of peers are reached: origins in order of preference, by the URL (scheme and authority)
 * the peer is known by.
 */
export type ReplicaAddresses = ReadonlyMap<string, readonly string[]>

/** What becomes of the addresses. */
export interface ReplicaObserver {
  /** An address is asked first again, or is asked only where no other is left. */
  changed(address: string, up: boolean, why: string): void
  /** A request goes to another address than the one before. */
  failedOver(reason: string): void
}

export interface ReplicaOptions {
  addresses: ReplicaAddresses
  observer: ReplicaObserver
  /** Looks at addresses that failed. */
  outbound: Outbound
  /**
   * How long an address is left alone before it is looked at for the first time, in milliseconds; 1,000 when
   * left out.
   */
  probeMs?: number
}

/** What is known of the addresses of all peers, for any number of clients. */
export interface Replicas {
  /**
   * The addresses of the peer that a URL belongs to, and the path at it; undefined where it belongs to none.
   */
  find(url: string): { addresses: readonly Address[]; path: string } | undefined
  observer: ReplicaObserver
  /** Looks at none any more. */
  stop(): void
}

const PROBE_MS = { first: 1_000, most: 15_000, answer: 1_000 }
const TIMEOUT_MS = 5_000
const UNAVAILABLE = new Set([502, 503, 504])
/** About the address, and not about the request. */
const ADDRESS_FAULTS = new Set<OutboundReason>(['unreachable', 'timeout', 'broken'])

/**
 * Begins with every address taken for well. One that fails, leaves (`connection: close`) or answers 502 to
 * 504 is passed over until its `/health` says 200, unless all are.
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
 * The client, with every request to a known peer sent to the first of its addresses that works. What has not
 * been sent goes on to the next address, and so does what is `repeatable`, all within the time of the one
 * request.
 */
export function withReplicas(outbound: Outbound, replicas: Replicas): Outbound {
  const { observer } = replicas
  const request: Outbound['request'] = wanted => {
    const found = replicas.find(wanted.url)
    if (found === undefined) return outbound.request(wanted)
    return sendInTurn(found.addresses, { outbound, wanted, path: found.path, observer })
  }
  return { ...outbound, request, getJson: jsonReader(request) }
}

/** One address of a peer. */
export interface Address {
  origin: string
  up: boolean
  /** Passes it over until it is found well again. */
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

interface Sending {
  outbound: Outbound
  wanted: OutboundRequest
  path: string
  observer: ReplicaObserver
}

async function sendInTurn(addresses: readonly Address[], sending: Sending): Promise<OutboundAnswer> {
  const { outbound, wanted, path, observer } = sending
  const repeatable = wanted.repeatable ?? (wanted.method ?? 'GET') === 'GET'
  const endsAt = performance.now() + (wanted.timeoutMs ?? TIMEOUT_MS)
  const inTurn = [...addresses.filter(({ up }) => up), ...addresses.filter(({ up }) => !up)]
  for (const [index, address] of inTurn.entries()) {
    const isLast = index === inTurn.length - 1
    const left = endsAt - performance.now()
    // One that hangs must leave the next one time enough; what cannot be sent to a next one has all of it.
    const timeoutMs = isLast || !repeatable ? left : left / 2
    try {
      const answer = await outbound.request({ ...wanted, url: address.origin + path, timeoutMs })
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
  throw new OutboundFault('unreachable', 'no address is configured', { sent: false })
}
