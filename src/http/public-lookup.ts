/**
 * Owns how a name that a stranger gave becomes addresses: all of them public, or none. Contract: "Operator
 * documents" and "Resource server establishment: POST `/rs/register`".
 *
 * It asks name servers itself (c-ares). The system's `getaddrinfo` has two threads for the whole process, and
 * two slow name servers of a stranger would hold up every other name, the database's too.
 */
import { Resolver, type LookupAddress, type LookupOptions } from 'node:dns'
import { isPublicAddress } from './public-address.ts'

export type LookupCallback = (
  error: Error | null,
  address?: string | LookupAddress[],
  family?: number,
) => void
export type Lookup = (hostname: string, options: LookupOptions, callback: LookupCallback) => void

const TRY_MS = 1_000
const TRIES = 2

/**
 * A look-up that fails if any address of the name is special: one public and one private address is an
 * attack.
 * @param forbidden makes the error of that case.
 * @param nameServers asked in place of the system's, as `host:port`.
 */
export function publicLookup(
  forbidden: (hostname: string) => Error,
  nameServers?: readonly string[],
): Lookup {
  const resolver = new Resolver({ timeout: TRY_MS, tries: TRIES })
  if (nameServers !== undefined) resolver.setServers(nameServers)
  const judged = async (hostname: string, family: LookupOptions['family']): Promise<LookupAddress[]> => {
    const found = await addressesOf(resolver, hostname)
    if (!found.every(({ address }) => isPublicAddress(address))) throw forbidden(hostname)
    const wanted = family === 4 || family === 6 ? found.filter(one => one.family === family) : found
    if (wanted.length === 0) throw notFound(hostname)
    return wanted
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

/** Every address of a name, both families; rejects where it has none. */
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
