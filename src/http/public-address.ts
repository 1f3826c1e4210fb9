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

const special = new BlockList()
for (const [list, family] of [
  [SPECIAL_V4, 'ipv4'],
  [SPECIAL_V6, 'ipv6'],
] as const) {
  for (const range of list) {
    const [net, bits] = range.split('/') as [string, string]
    special.addSubnet(net, Number(bits), family)
  }
}

/** Whether a literal address is one that anybody on the internet could be at: in no special-purpose range. */
export function isPublicAddress(address: string): boolean {
  const family = isIP(address)
  return family !== 0 && !special.check(address, family === 4 ? 'ipv4' : 'ipv6')
}
