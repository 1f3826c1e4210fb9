/**
 * Owns which addresses a URL named by a stranger may lead to. Contract: "Resource server establishment" and
 * "Operator documents": the service fetches what others name, and must not be made to reach into private
 * networks (RFC 6890 special-purpose registries).
 */
import { BlockList, isIP } from 'node:net'

const SPECIAL_V4 = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/4',
  '240.0.0.0/4',
]

/** The part of the above that the registry calls globally reachable. */
const REACHABLE_V4 = ['192.0.0.9/32', '192.0.0.10/32']

/** Within 2000::/3: all IPv6 addresses that are handed out. */
const SPECIAL_V6 = ['2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20']
const REACHABLE_V6 = [
  '2001:1::1/128',
  '2001:1::2/128',
  '2001:1::3/128',
  '2001:3::/32',
  '2001:4:112::/48',
  '2001:20::/28',
  '2001:30::/28',
]

// There are two lists, because a single list treats every IPv4 address as a mapped IPv6 one.
const special = { 4: blockList(SPECIAL_V4, 'ipv4'), 6: blockList(SPECIAL_V6, 'ipv6') }
const reachable = { 4: blockList(REACHABLE_V4, 'ipv4'), 6: blockList(REACHABLE_V6, 'ipv6') }
const handedOut = blockList(['2000::/3'], 'ipv6')

function blockList(ranges: readonly string[], family: 'ipv4' | 'ipv6'): BlockList {
  const list = new BlockList()
  for (const range of ranges) {
    const [net, bits] = range.split('/') as [string, string]
    list.addSubnet(net, Number(bits), family)
  }
  return list
}

/**
 * Whether anybody on the internet could be at a literal address: it is globally reachable by the IANA
 * special-purpose registries (RFC 6890). An IPv6 address that represents an IPv4 one is judged by that one.
 */
export function isPublicAddress(address: string): boolean {
  const family = isIP(address)
  if (family === 4) return !special[4].check(address, 'ipv4') || reachable[4].check(address, 'ipv4')
  if (family !== 6) return false
  const v4 = embeddedV4(address)
  if (v4 !== undefined) return isPublicAddress(v4)
  if (!handedOut.check(address, 'ipv6')) return false
  return !special[6].check(address, 'ipv6') || reachable[6].check(address, 'ipv6')
}

/**
 * The IPv4 address within a mapped (RFC 4291), translated (RFC 6052, the well-known prefix) or 6to4 (RFC
 * 3056) one.
 */
function embeddedV4(address: string): string | undefined {
  if (address.includes('%')) return undefined
  const groups = groupsOf(address)
  const starts = (...with_: number[]) => with_.every((group, i) => groups[i] === group)
  if (starts(0, 0, 0, 0, 0, 0xffff) || starts(0x64, 0xff9b, 0, 0, 0, 0)) return dotted(groups[6]!, groups[7]!)
  return starts(0x2002) ? dotted(groups[1]!, groups[2]!) : undefined
}

/** The eight groups of an IPv6 address, which the URL parser writes out in hexadecimal (RFC 5952). */
function groupsOf(address: string): number[] {
  const [head = '', tail = ''] = new URL(`http://[${address}]`).hostname.slice(1, -1).split('::')
  const numbers = (text: string) =>
    text === '' ? [] : text.split(':').map(group => Number.parseInt(group, 16))
  const [before, after] = [numbers(head), numbers(tail)]
  return [...before, ...Array.from({ length: 8 - before.length - after.length }, () => 0), ...after]
}

const dotted = (high: number, low: number): string => [high >> 8, high & 255, low >> 8, low & 255].join('.')
