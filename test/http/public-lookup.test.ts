/** Contract, "Operator documents": names that strangers give, asked of a name server that a test scripts. */
import { lookup as systemLookup } from 'node:dns/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createOutbound, OutboundFault, type Outbound } from '../../src/http/outbound/outbound.ts'
import { publicLookup } from '../../src/http/outbound/public-lookup.ts'
import { A, AAAA, startNameServer, type Named, type NameServer } from '../support/name-server.ts'

const ZONE: Record<string, Named> = {
  'public.example': { [A]: ['8.8.8.8', '1.1.1.1'], [AAAA]: ['2606:4700::1111'] },
  'private.example': { [A]: ['10.0.0.7'] },
  'mixed.example': { [A]: ['8.8.8.8', '192.168.1.1'] },
  'mixed-families.example': { [A]: ['8.8.8.8'], [AAAA]: ['fd00::1'] },
  'metadata.example': { [A]: ['169.254.169.254'] },
  'loopback6.example': { [AAAA]: ['::1'] },
  'mapped.example': { [AAAA]: ['::ffff:127.0.0.1'] },
  'slow.example': 'silent',
}

let server: NameServer
let outbound: Outbound
let nameServers: string[]

beforeAll(async () => {
  server = await startNameServer(name => ZONE[name])
  nameServers = [server.address]
  outbound = createOutbound({ devLoopback: false, publicOnly: true, nameServers, timeoutMs: 5_000 })
})
afterAll(async () => {
  await outbound.close()
  server.close()
})

const reasonOf = async (host: string) => {
  const error: unknown = await outbound.request({ url: `https://${host}/x` }).catch((cause: unknown) => cause)
  return error instanceof OutboundFault ? [error.reason, error.sent] : error
}
const addresses = (host: string, options: object = {}) =>
  new Promise((resolve, reject) => {
    const lookup = publicLookup(name => new Error(`${name} is forbidden`), nameServers)
    lookup(host, { all: true, ...options }, (error, found) =>
      error === null ? resolve(found) : reject(error),
    )
  })

describe('A name that a stranger gives', () => {
  test('leads to all its addresses, if every one of them is public', async () => {
    expect(await addresses('public.example')).toEqual([
      { address: '8.8.8.8', family: 4 },
      { address: '1.1.1.1', family: 4 },
      { address: '2606:4700::1111', family: 6 },
    ])
    expect(await addresses('public.example', { family: 6 })).toEqual([
      { address: '2606:4700::1111', family: 6 },
    ])
    expect(await addresses('public.example', { all: false })).toBe('8.8.8.8')
  })

  test.each([
    'private.example',
    'mixed.example',
    'mixed-families.example',
    'metadata.example',
    'loopback6.example',
    'mapped.example',
    'localhost',
    'anything.localhost',
  ])('leads nowhere where one of them is not: %s', async host => {
    expect(await reasonOf(host)).toEqual(['forbidden_address', false])
  })

  test('that has no address cannot be reached', async () => {
    expect(await reasonOf('unknown.example')).toEqual(['unreachable', false])
    expect(server.asked).toContain('unknown.example')
  })

  test('whose name server never answers is given up, and meanwhile no other name waits for it', async () => {
    let givenUp = 0
    const slow = Array.from({ length: 8 }, () => reasonOf('slow.example').finally(() => givenUp++))
    await systemLookup('127.0.0.1')
    await systemLookup('localhost').catch(() => undefined)
    expect(await addresses('public.example')).toHaveLength(3)
    expect(givenUp).toBe(0)
    for (const reason of await Promise.all(slow))
      expect(reason).toEqual([expect.stringMatching(/^(?:timeout|unreachable)$/), expect.any(Boolean)])
  })
})
