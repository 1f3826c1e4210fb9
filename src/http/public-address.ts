/**
 * Owns which addresses a URL named by a stranger may lead to. contract, "Resource server establishment" and "Operator documents":
 * the service fetches what others name, and must not be made to reach into private networks (RFC 6890 special-purpose registries).
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

const SPECIAL_V6 = [
  '::/96', // unspecified, loopback and the old IPv4-compatible form
  '::ffff:0:0/96',
  '64:ff9b::/96',
  '64:ff9b:1::/48',
  '100::/64',
  '2001::/23',
  '2001:db8::/32',
  '2002::/16',
  '3fff::/20',
  '5f00::/16',
  'fc00::/7',
  'fe80::/10',
  'fec0::/10',
  'ff00::/8',
]

// Two lists: one alone takes every IPv4 address for a mapped IPv6 one, which is special as a whole.
const special = { 4: blockList(SPECIAL_V4, 'ipv4'), 6: blockList(SPECIAL_V6, 'ipv6') }

function blockList(ranges: readonly string[], family: 'ipv4' | 'ipv6'): BlockList {
  const list = new BlockList()
  for (const range of ranges) {
    const [net, bits] = range.split('/') as [string, string]
    list.addSubnet(net, Number(bits), family)
  }
  return list
}

/** Whether a literal address is one that anybody on the internet could be at: in no special-purpose range. */
export function isPublicAddress(address: string): boolean {
  const family = isIP(address)
  if (family === 4) return !special[4].check(address, 'ipv4')
  return family === 6 && !special[6].check(address, 'ipv6')
}
