/**
 * Owns whom our servers may send to, and how they connect: https only, the addresses that are admitted, the
 * certificates that are trusted. Contract: "Registry materialization" and "Operator documents".
 */
import { lookup } from 'node:dns'
import { isIP, type LookupFunction } from 'node:net'
import { getCACertificates } from 'node:tls'
import { buildConnector } from 'undici'
import { BoundedMap } from '../../limits/bounded-map.ts'
import { isPossibleHost } from '../../wire/hosts.ts'
import { isLoopbackHost } from '../../wire/loopback.ts'
import { OutboundFault } from './outbound-fault.ts'
import { isPublicAddress } from './public-address.ts'
import { publicLookup } from './public-lookup.ts'
import type { AddressTrust } from './trusted-networks.ts'

/** Time for a whole request, connecting included, if nothing else is said. */
export const TIMEOUT_MS = 5_000

export interface OutboundOptions {
  /**
   * Admits http, and loopback for public-only clients, towards literal loopback hosts. For development alone.
   */
  devLoopback: boolean
  /** For URLs that strangers name: only public addresses, checked on the address connected to. */
  publicOnly?: boolean
  /**
   * In place of `publicOnly`, for hosts of networks that the operator trusts: only addresses that this
   * admits, checked likewise.
   */
  trustedOnly?: AddressTrust
  /** Time for a whole request, connecting included; 5,000 when left out. */
  timeoutMs?: number
  /** Largest answer in bytes; 65,536 when left out. */
  responseBytesMax?: number
  /** Most connections per origin; 16 when left out. */
  connections?: number
  /** Asked by public-only and trusted-only clients in place of the system's, as `host:port`. */
  nameServers?: readonly string[]
  /**
   * Certificates trusted beside the usual ones, PEM; asked at every connect if it is a function, as they
   * may be renewed.
   */
  ca?: string | Buffer | (() => Buffer)
  /** Time to connect in; that of a whole request when left out. */
  connectTimeoutMs?: number
  /** How long a connection that nothing uses is kept; 30,000 when left out. */
  idleMs?: number
  /**
   * How long a connection is used at most, so that load moves to replicas that are new behind a name; for
   * ever when left out.
   */
  connectionAgeMs?: number
  /** How a name becomes addresses; the system's look-up, in random order, when left out. */
  lookup?: LookupFunction
}

/** A URL as a client of HTTP takes it. */
export interface Target {
  origin: string
  path: string
}

const TARGETS_MAX = 256

/** `checkUrl`, made once for the few URLs that are asked again and again. */
export function keepingTargets(options: OutboundOptions): (url: string) => Target {
  const targets = new BoundedMap<string, Target>(TARGETS_MAX)
  return text => {
    const known = targets.get(text)
    if (known !== undefined) return known
    const { origin, pathname, search } = checkUrl(text, options)
    const target = { origin, path: pathname + search }
    targets.set(text, target)
    return target
  }
}

/**
 * The URL, if we may send to it: https, without userinfo or fragment; http to a literal loopback host in
 * development. The addresses of a name are judged when a connection is opened. Throws `OutboundFault`.
 */
export function checkUrl(text: string, options: Pick<OutboundOptions, 'devLoopback' | 'publicOnly'>): URL {
  const url = URL.parse(text)
  const refuseUrl = (why: string): never => {
    throw new OutboundFault('forbidden_url', `${JSON.stringify(text.slice(0, 200))} ${why}`, { sent: false })
  }
  if (url === null) return refuseUrl('is no URL')
  // TLS would throw where nobody catches it.
  if (!isPossibleHost(url.hostname)) return refuseUrl('has a host that is no name of DNS')
  const loopback = options.devLoopback && isLoopbackHost(url.hostname)
  if (url.protocol !== 'https:' && !(loopback && url.protocol === 'http:')) return refuseUrl('is not https')
  if (url.username !== '' || url.password !== '' || url.hash !== '')
    return refuseUrl('has userinfo or a fragment')
  const literal = url.hostname.replace(/^\[|\]$/g, '')
  const admits = admittedAddresses(options)
  if (admits !== undefined && isIP(literal) !== 0 && !loopback && !admits(literal, literal)) {
    throw new OutboundFault('forbidden_address', `${url.origin} is at ${requiredPlace(options)}`, {
      sent: false,
    })
  }
  return url
}

/** Which addresses may be connected to; undefined: any. */
function admittedAddresses({ publicOnly, trustedOnly }: OutboundOptions): AddressTrust | undefined {
  if (trustedOnly !== undefined) return trustedOnly
  return publicOnly === true ? (_host, address) => isPublicAddress(address) : undefined
}

const requiredPlace = ({ trustedOnly }: OutboundOptions): string =>
  trustedOnly === undefined ? 'no public address' : 'no address of a trusted network'

/** What connects, as these options say; certificates that are renewed are asked for at every connect. */
export function connector(options: OutboundOptions): buildConnector.connector {
  const { ca } = options
  if (typeof ca !== 'function') return connectorTrusting(ca, options)
  let trusted = ca()
  let connect = connectorTrusting(trusted, options)
  return (target, callback) => {
    const now = ca()
    if (now !== trusted) connect = connectorTrusting((trusted = now), options)
    connect(target, callback)
  }
}

function connectorTrusting(
  ca: string | Buffer | undefined,
  options: OutboundOptions,
): buildConnector.connector {
  const tls = ca === undefined ? {} : { ca: [...getCACertificates('default'), ca] }
  const timeout = options.connectTimeoutMs ?? options.timeoutMs ?? TIMEOUT_MS
  const build = { ...tls, timeout, keepAlive: true }
  const admits = admittedAddresses(options)
  if (admits === undefined) {
    const lookup = options.lookup ?? shuffledLookup
    return buildConnector({ ...build, lookup })
  }
  // A literal address needs no look-up and was judged with the URL; a name is judged here, on what will be
  // connected to.
  const forbidden = (hostname: string, address: string): Error => {
    const words = `${hostname} is at ${address}, which is ${requiredPlace(options)}`
    return new OutboundFault('forbidden_address', words, { sent: false })
  }
  const lookup = publicLookup(forbidden, options.nameServers, admits)
  return buildConnector({ ...build, lookup } as buildConnector.BuildOptions)
}

/**
 * All addresses of a name, those of one family in random order: the system's resolver sorts them the same way
 * for everybody, and whoever connects takes the first one that accepts.
 */
const shuffledLookup: LookupFunction = (hostname, options, callback) => {
  lookup(hostname, options, (error, found, family) => {
    if (error !== null || !Array.isArray(found)) return callback(error, found, family)
    const preferred = found[0]?.family
    for (let last = found.length - 1; last > 0; last--) {
      const other = Math.floor(Math.random() * (last + 1))
      ;[found[last], found[other]] = [found[other]!, found[last]!]
    }
    callback(
      null,
      found.sort((one, two) => Number(one.family !== preferred) - Number(two.family !== preferred)),
    )
  })
}
