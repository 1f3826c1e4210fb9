/** Contract, "Operator documents": names that strangers give, asked of a name server that a test scripts. */
import { createSocket, type Socket } from 'node:dgram'
import { lookup as systemLookup } from 'node:dns/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createOutbound, OutboundFault, type Outbound } from '../../src/http/outbound.ts'
import { publicLookup } from '../../src/http/public-lookup.ts'

const A = 1
const AAAA = 28
/**
 * What the server says of a name, by type of record; a name without entry is unknown, `silent` is never
 * answered.
 */
const ZONE: Record<string, { [A]?: string[]; [AAAA]?: string[] } | 'silent'> = {
  'public.example': { [A]: ['8.8.8.8', '1.1.1.1'], [AAAA]: ['2606:4700::1111'] },
  'private.example': { [A]: ['10.0.0.7'] },
  'mixed.example': { [A]: ['8.8.8.8', '192.168.1.1'] },
  'mixed-families.example': { [A]: ['8.8.8.8'], [AAAA]: ['fd00::1'] },
  'metadata.example': { [A]: ['169.254.169.254'] },
  'loopback6.example': { [AAAA]: ['::1'] },
  'mapped.example': { [AAAA]: ['::ffff:127.0.0.1'] },
  'slow.example': 'silent',
}

let server: Socket
let outbound: Outbound
let nameServers: string[]
const asked: string[] = []

beforeAll(async () => {
  server = createSocket('udp4')
  server.on('message', (query, from) => {
    const { name, type, end } = questionOf(query)
    asked.push(name)
    const known = ZONE[name]
    if (known === 'silent') return
    const records = known?.[type as typeof A] ?? []
    server.send(
      answerTo(query.subarray(0, end), type, { records, known: known !== undefined }),
      from.port,
      from.address,
    )
  })
  await new Promise<void>(resolve => server.bind(0, '127.0.0.1', resolve))
  nameServers = [`127.0.0.1:${server.address().port}`]
  outbound = createOutbound({ devLoopback: false, publicOnly: true, nameServers, timeoutMs: 5_000 })
})
afterAll(async () => {
  await outbound.close()
  server.close()
})

function questionOf(query: Buffer): { name: string; type: number; end: number } {
  const labels: string[] = []
  let at = 12
  for (let length = query[at]!; length !== 0; length = query[at]!) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length))
    at += 1 + length
  }
  return { name: labels.join('.').toLowerCase(), type: query.readUInt16BE(at + 1), end: at + 5 }
}

function answerTo(
  question: Buffer,
  type: number,
  { records, known }: { records: string[]; known: boolean },
): Buffer {
  const head = Buffer.from(question)
  head.writeUInt16BE(known ? 0x8180 : 0x8183, 2)
  head.writeUInt16BE(records.length, 6)
  for (const at of [8, 10]) head.writeUInt16BE(0, at)
  return Buffer.concat([head, ...records.map(record => recordOf(type, record))])
}

function recordOf(type: number, address: string): Buffer {
  const data = type === A ? Buffer.from(address.split('.').map(Number)) : ipv6Bytes(address)
  const head = Buffer.alloc(12)
  head.writeUInt16BE(0xc00c, 0)
  head.writeUInt16BE(type, 2)
  head.writeUInt16BE(1, 4)
  head.writeUInt32BE(1, 6)
  head.writeUInt16BE(data.length, 10)
  return Buffer.concat([head, data])
}

function ipv6Bytes(address: string): Buffer {
  const url = new URL(`http://[${address}]`).hostname.slice(1, -1)
  const [left = '', right = ''] = url.split('::')
  const groups = (text: string) =>
    text
      .split(':')
      .filter(Boolean)
      .map(group => Number.parseInt(group, 16))
  const [first, last] = [groups(left), groups(right)]
  const all = [...first, ...Array.from({ length: 8 - first.length - last.length }, () => 0), ...last]
  return Buffer.from(all.flatMap(group => [group >> 8, group & 0xff]))
}

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
  test('leads to all its addresses, where every one of them is public', async () => {
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
    expect(asked).toContain('unknown.example')
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
