/**
 * Owns the name under which requests of one source are counted. Contract: "Limits" (rate limits): the holder
 * of one address of an IPv6 /64 has all of them.
 */
import { isIP } from 'node:net'

/** An IPv4 address as it is, an IPv6 one as its /64, anything else unchanged. */
export function peerNetwork(address: string): string {
  if (isIP(address) !== 6) return address
  const bare = address.toLowerCase().split('%', 1)[0]!
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/.exec(bare)
  if (mapped !== null) return mapped[1]!
  const [head = '', tail] = bare.split('::')
  const groups = head === '' ? [] : head.split(':')
  const ending = tail === undefined || tail === '' ? [] : tail.split(':')
  const missing = tail === undefined ? 0 : Math.max(0, 8 - groups.length - ending.length)
  const all = [...groups, ...Array<string>(missing).fill('0'), ...ending]
  return `${all
    .slice(0, 4)
    .map(group => group.replace(/^0+(?=.)/, ''))
    .join(':')}::/64`
}

/**
 * The address that the outermost of `hops` proxies in front of the gateway saw, by x-forwarded-for lines;
 * undefined if it is no address. The innermost of them is the gateway's `peer`. A gateway that adds its peer
 * to the field before it asks, as Envoy does with `use_remote_address`, makes no further hop by that.
 */
export function forwardedAddress(
  lines: readonly string[],
  { hops, peer }: { hops: number; peer: string },
): string | undefined {
  const addresses = lines.flatMap(line => line.split(',')).map(hop => hop.trim())
  if (addresses.at(-1) === peer) addresses.pop()
  const address = addresses.at(-hops)
  return address !== undefined && isIP(address) !== 0 ? address : undefined
}
