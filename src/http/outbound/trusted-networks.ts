/**
 * Owns which private addresses an operator may trust, and which she trusts. Contract: "Resource server
 * establishment: POST `/rs/register`" and "Registry materialization": resource servers of her own network
 * have addresses that nobody on the internet can have.
 */
import { BlockList, isIP } from 'node:net'

export interface TrustedNetworks {
  /** Ranges such as `10.20.0.0/16`, in each of which `networkFault` finds no fault. */
  networks: readonly string[]
  /** Hosts that may be there, as names or `*.` and a name; any if left out. */
  hosts?: readonly string[] | undefined
}

/** Whether a host may be reached at an address: not whether anybody should. */
export type AddressTrust = (host: string, address: string) => boolean

type AddressFamily = 'ipv4' | 'ipv6'

/** For private use, and not assigned to anybody: RFC 1918, RFC 6598, RFC 4193. */
const PRIVATE = ['10.0.0.0/8', '100.64.0.0/10', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7']
const LOOPBACK = ['127.0.0.0/8', '::1/128']
/**
 * Addresses within the private ranges where clouds give a machine its credentials; they may never be trusted.
 */
const METADATA = ['100.100.100.200/32', 'fd00:ec2::254/128', 'fd20:ce::254/128']

const privateUse = rangesOf(PRIVATE)
const loopback = rangesOf(LOOPBACK)
const metadata = rangesOf(METADATA)

/**
 * The fault of a range, as a clause; undefined if it may be trusted. Link-local, multicast and reserved
 * addresses may never be trusted, loopback only in development.
 */
export function networkFault(text: string, { devLoopback }: { devLoopback: boolean }): string | undefined {
  const range = parseRange(text)
  if (range === undefined) return 'is no range such as 10.20.0.0/16 or fd12:3456::/32'
  const within = [...PRIVATE, ...(devLoopback ? LOOPBACK : [])]
  if (within.some(outer => holds(outer, range))) return undefined
  const inDevelopment = devLoopback ? '' : `; with UMA_DEV_LOOPBACK=true also ${LOOPBACK.join(', ')}`
  return `lies in no range for private use (${within.join(', ')}${inDevelopment})`
}

/** Whether a text may be listed as a host: a name, `*.` and a name for those below it, or an address. */
export function isTrustedHost(text: string): boolean {
  const host = text.startsWith('*.') ? text.slice(2) : text
  if (isIP(host) !== 0) return host === text
  return /^(?:[a-z\d_](?:[a-z\d_-]{0,61}[a-z\d_])?\.)*[a-z\d_](?:[a-z\d_-]{0,61}[a-z\d_])?$/.test(host)
}

/** Judges addresses by the lists. An IPv6 address that represents an IPv4 one is never trusted. */
export function createAddressTrust({ networks, hosts }: TrustedNetworks): AddressTrust {
  const ranges = rangesOf(networks)
  return (host, address) => {
    if (!ranges(address) || metadata(address)) return false
    if (!privateUse(address) && !loopback(address)) return false
    return hosts === undefined || hosts.some(one => isHostOf(one, host))
  }
}

function isHostOf(listed: string, host: string): boolean {
  const name = host.toLowerCase().replace(/\.$/, '')
  return listed.startsWith('*.') ? name.endsWith(listed.slice(1)) : name === listed
}

interface Range {
  net: string
  bits: number
  family: AddressFamily
}

function parseRange(text: string): Range | undefined {
  const [, net = '', bits = ''] = /^([\d.]+|[\da-f:]+)\/(\d{1,3})$/.exec(text) ?? []
  const family = familyOf(net)
  if (family === undefined || Number(bits) > (family === 'ipv4' ? 32 : 128)) return undefined
  return { net, bits: Number(bits), family }
}

function familyOf(address: string): AddressFamily | undefined {
  const version = isIP(address)
  if (version === 0) return undefined
  return version === 4 ? 'ipv4' : 'ipv6'
}

function holds(outer: string, { net, bits, family }: Range): boolean {
  return (
    bits >= parseRange(outer)!.bits && familyOf(outer.split('/')[0]!) === family && rangesOf([outer])(net)
  )
}

/** There are two lists, because a single list treats every IPv4 address as a mapped IPv6 one. */
function rangesOf(ranges: readonly string[]): (address: string) => boolean {
  const lists = { ipv4: new BlockList(), ipv6: new BlockList() }
  for (const text of ranges) {
    const { net, bits, family } = parseRange(text)!
    lists[family].addSubnet(net, bits, family)
  }
  return address => {
    const family = address.includes('%') ? undefined : familyOf(address)
    // Node judges ::ffff:10.0.0.1 only by IPv4 rules, and the list of IPv6 has none.
    return family !== undefined && lists[family].check(address, family)
  }
}
