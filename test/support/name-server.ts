/** Owns a name server whose every answer a test scripts: real packets, one socket. */
import { createSocket } from 'node:dgram'

export const A = 1
export const AAAA = 28

/** What is said of a name, by type of record; `silent` is never answered. */
export type Named = { [A]?: string[]; [AAAA]?: string[] } | 'silent'

export interface NameServer {
  /** As `host:port`. */
  address: string
  /** The names asked for, in order. */
  asked: string[]
  close(): void
}

/** Starts one that says of each name what `named` does; undefined: the name is unknown. */
export async function startNameServer(named: (name: string) => Named | undefined): Promise<NameServer> {
  const asked: string[] = []
  const server = createSocket('udp4')
  server.on('message', (query, from) => {
    const { name, type, end } = questionOf(query)
    asked.push(name)
    const known = named(name)
    if (known === 'silent') return
    const records = known?.[type as typeof A] ?? []
    server.send(
      answerTo(query.subarray(0, end), type, { records, known: known !== undefined }),
      from.port,
      from.address,
    )
  })
  await new Promise<void>(resolve => server.bind(0, '127.0.0.1', resolve))
  return { address: `127.0.0.1:${server.address().port}`, asked, close: () => void server.close() }
}

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
