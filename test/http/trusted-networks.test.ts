/** Contract, "Resource server establishment: POST `/rs/register`": which private addresses may be asked. */
import { createServer, type Server } from 'node:net'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createOutbound, OutboundFault } from '../../src/http/outbound/outbound.ts'
import { createAddressTrust, isTrustedHost, networkFault } from '../../src/http/outbound/trusted-networks.ts'
import { A, AAAA, startNameServer, type NameServer } from '../support/name-server.ts'

const DEPLOYED = { devLoopback: false }

describe('A network may be trusted', () => {
  test.each([
    '10.0.0.0/8',
    '10.20.30.40/32',
    '172.16.0.0/12',
    '192.168.7.0/24',
    '100.64.0.0/10',
    'fd12::/16',
  ])('where it is for private use: %s', network => expect(networkFault(network, DEPLOYED)).toBeUndefined())
  test.each([
    '0.0.0.0/0',
    '::/0',
    '10.0.0.0/7',
    '172.16.0.0/11',
    '8.8.8.0/24',
    '127.0.0.0/8',
    '::1/128',
    '169.254.0.0/16',
    '169.254.169.254/32',
    'fe80::/10',
    '224.0.0.0/4',
    'ff00::/8',
    '0.0.0.0/8',
    '255.255.255.255/32',
    '::ffff:10.0.0.0/104',
    '64:ff9b::a00:0/104',
  ])('and nowhere else: %s', network => expect(networkFault(network, DEPLOYED)).toMatch(/^(?:lies|is no)/))
  test.each([
    '10.0.0.0',
    '10.0.0.0/33',
    'fd00::/129',
    '10.0.0/8',
    'tools.example/8',
    'fd00::%1/64',
    '/8',
    '',
  ])('only where it is a range: %j', network =>
    expect(networkFault(network, DEPLOYED)).toContain('is no range'),
  )
  test('on this machine itself in development alone', () => {
    expect(networkFault('127.0.0.0/8', { devLoopback: true })).toBeUndefined()
    expect(networkFault('127.0.0.0/7', { devLoopback: true })).toBeDefined()
  })
})

describe('An address is trusted', () => {
  const trust = createAddressTrust({ networks: ['10.20.0.0/16', 'fd00::/8', '100.64.0.0/10'] })
  test.each(['10.20.0.1', '10.20.255.255', 'fd00::5', '100.64.1.1'])('within a network: %s', address =>
    expect(trust('tools.internal', address)).toBe(true),
  )
  test.each([
    '10.21.0.1',
    '8.8.8.8',
    '127.0.0.1',
    '169.254.169.254',
    'fe80::1',
    'fd00::5%eth0',
    '::ffff:10.20.0.1',
    '::ffff:a14:1',
    '64:ff9b::10.20.0.1',
    'fd00:ec2::254',
    'fd20:ce::254',
    '100.100.100.200',
    'no address',
  ])('and not otherwise: %s', address => expect(trust('tools.internal', address)).toBe(false))

  test.each([
    ['tools.internal', true],
    ['TOOLS.internal.', true],
    ['a.corp.example', true],
    ['a.b.corp.example', true],
    ['corp.example', false],
    ['evilcorp.example', false],
    ['tools.internal.evil.example', false],
    ['10.20.0.9', true],
    ['10.20.0.8', false],
  ])('only of a host that is listed, where hosts are: %s: %s', (host, admitted) => {
    const hosts = ['tools.internal', '*.corp.example', '10.20.0.9']
    expect(hosts.every(isTrustedHost)).toBe(true)
    const narrowed = createAddressTrust({ networks: ['10.20.0.0/16'], hosts })
    expect(narrowed(host, '10.20.0.9')).toBe(admitted)
  })
  test.each(['*', '*.', 'a..b', 'UPPER.example', '*.10.0.0.1', 'a b', 'x/24', '*.*.x'])(
    '%j is no host',
    host => expect(isTrustedHost(host)).toBe(false),
  )

  test('whatever its network: exactly where the leading bits agree', () => {
    const octets = fc.tuple(fc.constant(10), fc.nat(255), fc.nat(255), fc.nat(255))
    const number = (of: number[]) => of.reduce((sum, octet) => sum * 256 + octet, 0)
    fc.assert(
      fc.property(octets, fc.integer({ min: 8, max: 32 }), octets, (net, bits, address) => {
        const judge = createAddressTrust({ networks: [`${net.join('.')}/${bits}`] })
        const size = 2 ** (32 - bits)
        const within = Math.floor(number(net) / size) === Math.floor(number(address) / size)
        expect(judge('x', address.join('.'))).toBe(within)
      }),
    )
  })
})

describe('A client of trusted networks', () => {
  /** By the last number of the address in 127.0.0.0/8. */
  let zone: { [A]: string[]; [AAAA]?: string[] }
  let reached: string[]
  let listener: Server
  let port: number
  let names: NameServer
  beforeAll(async () => {
    names = await startNameServer(() => zone)
    listener = createServer(socket => {
      reached.push(socket.localAddress!)
      socket.destroy()
    })
    await new Promise<void>(resolve => listener.listen(0, '0.0.0.0', resolve))
    port = (listener.address() as { port: number }).port
  })
  afterAll(async () => {
    names.close()
    await new Promise(resolve => listener.close(resolve))
  })
  const ask = async (url: string, networks: string[]) => {
    const trustedOnly = createAddressTrust({ networks })
    const outbound = createOutbound({ devLoopback: false, trustedOnly, nameServers: [names.address] })
    reached = []
    const fault: unknown = await outbound.request({ url }).catch((error: unknown) => error)
    await outbound.close()
    return (fault as OutboundFault).reason
  }

  test('never connects to an address outside them, whatever a name server says', async () => {
    const lasts = fc.uniqueArray(fc.integer({ min: 1, max: 5 }), { minLength: 1, maxLength: 3 })
    await fc.assert(
      fc.asyncProperty(lasts, lasts, async (named, trusted) => {
        zone = { [A]: named.map(last => `127.0.0.${last}`) }
        const networks = trusted.map(last => `127.0.0.${last}/32`)
        const reason = await ask(`https://tools.internal:${port}/x`, networks)
        const all = named.every(last => trusted.includes(last))
        expect(reason === 'forbidden_address').toBe(!all)
        expect(reached.length > 0).toBe(all)
        for (const address of reached) expect(networks).toContain(`${address}/32`)
      }),
      { numRuns: 40 },
    )
  })

  test.each([
    ['a public address beside a trusted one', { [A]: ['127.0.0.1', '8.8.8.8'] }],
    ['a public address', { [A]: ['8.8.8.8'] }],
    ['one of the other family', { [A]: ['127.0.0.1'], [AAAA]: ['fd00::1'] }],
    ['one that is mapped', { [A]: [], [AAAA]: ['::ffff:127.0.0.1'] }],
  ])('connects to nothing of a name with %s', async (_what, named) => {
    zone = named
    expect(await ask(`https://tools.internal:${port}/x`, ['127.0.0.0/8'])).toBe('forbidden_address')
    expect(reached).toEqual([])
  })

  test('judges an address in a URL, and sends nothing but https', async () => {
    expect(await ask(`https://127.0.0.2:${port}/x`, ['127.0.0.1/32'])).toBe('forbidden_address')
    expect(await ask(`http://127.0.0.1:${port}/x`, ['127.0.0.1/32'])).toBe('forbidden_url')
    expect(reached).toEqual([])
    expect(await ask(`https://127.0.0.1:${port}/x`, ['127.0.0.1/32'])).toBe('broken')
    expect(reached).toEqual(['127.0.0.1'])
  })
})
