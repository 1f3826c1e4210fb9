/**
 * Owns how a name that a stranger gave becomes addresses: all of them public, or none. Contract: "Operator
 * documents" and "Resource server establishment: POST `/rs/register`".
 *
 * It asks name servers itself (c-ares). The system's `getaddrinfo` has two threads for the whole process, so
 * two slow name servers of a stranger would delay every other look-up, even that of the database.
 */
import { Resolver, type LookupAddress, type LookupOptions } from 'node:dns'
import { isIP } from 'node:net'
import { isPublicAddress } from './public-address.ts'
import type { AddressTrust } from './trusted-networks.ts'

export type LookupCallback = (
  error: Error | null,
  address?: string | LookupAddress[],
  family?: number,
) => void
export type Lookup = (hostname: string, options: LookupOptions, callback: LookupCallback) => void

const LOOKUP_TIMEOUT_MS = 1_000
const TRIES = 2

/**
 * A look-up that fails if any address of the name is special, because one public and one private address
 * together are an attack.
 * @param forbidden makes the error of that case, of the name and the address that is not admitted.
 * @param nameServers asked in place of the system's, as `host:port`.
 * @param admits judges an address of a name in place of that.
 */
export function publicLookup(
  forbidden: (hostname: string, address: string) => Error,
  nameServers?: readonly string[],
  admits: AddressTrust = (_hostname, address) => isPublicAddress(address),
): Lookup {
  const resolver = resolverAsking(nameServers)
  const judged = async (hostname: string, family: LookupOptions['family']): Promise<LookupAddress[]> => {
    const found = await addressesOf(resolver, hostname)
    const refused = found.find(({ address }) => !admits(hostname, address))
    if (refused !== undefined) throw forbidden(hostname, refused.address)
    const matches = family === 4 || family === 6 ? found.filter(one => one.family === family) : found
    if (matches.length === 0) throw notFound(hostname)
    return matches
  }
  const look = async (hostname: string, options: LookupOptions, callback: LookupCallback): Promise<void> => {
    let found: LookupAddress[]
    try {
      found = await judged(hostname, options.family)
    } catch (error) {
      return callback(error as Error)
    }
    if (options.all === true) return callback(null, found)
    callback(null, found[0]!.address, found[0]!.family)
  }
  return (hostname, options, callback) => void look(hostname, options, callback)
}

/**
 * Whether the host of a URL has only public addresses, as name servers say now. The connecting code checks
 * the address again.
 */
export function createPublicHosts(nameServers?: readonly string[]): (hostname: string) => Promise<boolean> {
  const resolver = resolverAsking(nameServers)
  return async hostname => {
    const literal = hostname.replace(/^\[|\]$/g, '')
    if (isIP(literal) !== 0) return isPublicAddress(literal)
    const found = await addressesOf(resolver, hostname).catch(() => [])
    return found.length > 0 && found.every(({ address }) => isPublicAddress(address))
  }
}

function resolverAsking(nameServers: readonly string[] | undefined): Resolver {
  const resolver = new Resolver({ timeout: LOOKUP_TIMEOUT_MS, tries: TRIES })
  if (nameServers !== undefined) resolver.setServers(nameServers)
  return resolver
}

/** Every address of a name, both families; rejects if it has none. */
async function addressesOf(resolver: Resolver, hostname: string): Promise<LookupAddress[]> {
  // RFC 6761: this machine, whatever a name server says.
  if (/^(?:.+\.)?localhost\.?$/i.test(hostname)) return [{ address: '127.0.0.1', family: 4 }]
  const [v4, v6] = await Promise.allSettled([
    resolve(resolver, 'resolve4', hostname),
    resolve(resolver, 'resolve6', hostname),
  ])
  const found = [
    ...(v4.status === 'fulfilled' ? v4.value.map(address => ({ address, family: 4 })) : []),
    ...(v6.status === 'fulfilled' ? v6.value.map(address => ({ address, family: 6 })) : []),
  ]
  if (found.length === 0) throw v4.status === 'rejected' ? v4.reason : notFound(hostname)
  return found
}

function resolve(resolver: Resolver, how: 'resolve4' | 'resolve6', hostname: string): Promise<string[]> {
  return new Promise((done, failed) => {
    resolver[how](hostname, (error, addresses) => (error === null ? done(addresses) : failed(error)))
  })
}

function notFound(hostname: string): Error {
  return Object.assign(new Error(`${hostname} has no address`), { code: 'ENOTFOUND' })
}
