/**
 * Owns a link to a Postgres that answers one statement with an error in its place, as after a serialization
 * failure: nothing of it is done, and the transaction that it was in is aborted.
 */
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'

export interface RefusingLink {
  /** The URL of the server, reached through this link. */
  url: string
  /** Answers the nth statement from now (1: the next) with this SQLSTATE, once. */
  refuse(nth: number, sqlState: string): void
  /** Statements since then. */
  count(): number
  /** The texts of those that were refused. */
  refused: string[]
  close(): Promise<void>
}

const code = (letter: string): number => letter.charCodeAt(0)
const [QUERY, PARSE, SYNC, BIND] = ['Q', 'P', 'S', 'B'].map(code) as [number, number, number, number]

/** A link to the server of a `postgres://` URL, without TLS. */
export async function refusingLink(target: string): Promise<RefusingLink> {
  const { hostname, port } = new URL(target)
  const sockets = new Set<Socket>()
  const refused: string[] = []
  let [left, seen, state] = [0, 0, '']

  /** Whether it is the one. Only what the product sends counts: no set-up of a connection, no end. */
  const isRefused = (text: string): boolean => {
    if (/^(?:set |select set_config|rollback|select \(pg_is_in_recovery)/i.test(text.trim())) return false
    seen++
    if (left === 0 || --left > 0) return false
    refused.push(text)
    return true
  }

  const server = createServer(incoming => {
    const outgoing = connect(Number(port), hostname)
    for (const socket of [incoming, outgoing]) {
      sockets.add(socket)
      socket.on('error', () => socket.destroy()).on('close', () => sockets.delete(socket))
    }
    incoming.on('close', () => outgoing.destroy())
    outgoing.on('close', () => incoming.destroy())
    const names = new Map<string, string>()
    let [started, held] = [false, Buffer.alloc(0)]
    let [batch, text]: [Buffer[], string | undefined] = [[], undefined]
    let status = code('I')
    let aborting = false
    outgoing.on('data', chunk => {
      const ended = lastStatus(chunk)
      status = ended ?? status
      if (!aborting) incoming.write(chunk)
      else if (ended !== undefined) {
        aborting = false
        incoming.write(refusal(state, ended))
      }
    })
    const refuseOne = (text: string): void => {
      if (status === code('I')) return void incoming.write(refusal(state, status))
      aborting = true
      outgoing.write(query(/^commit/i.test(text) ? 'ROLLBACK' : 'SELECT 1 / 0'))
    }
    incoming.on('data', chunk => {
      held = Buffer.concat([held, chunk])
      while (held.length >= 5) {
        // The first message has no letter.
        const from = started ? 1 : 0
        const length = held.readUInt32BE(from) + from
        if (held.length < length) return
        const message = held.subarray(0, length)
        held = held.subarray(length)
        if (!started) {
          started = true
          outgoing.write(message)
          continue
        }
        batch.push(message)
        text = textOf(message, names) ?? text
        if (message[0] !== QUERY && message[0] !== SYNC && message[0] !== code('p')) continue
        if (text !== undefined && isRefused(text)) refuseOne(text)
        else outgoing.write(Buffer.concat(batch))
        ;[batch, text] = [[], undefined]
      }
    })
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const url = new URL(target)
  url.port = String((server.address() as AddressInfo).port)
  return {
    url: url.href,
    refuse: (nth, sqlState) => ([left, seen, state] = [nth, 0, sqlState]),
    count: () => seen,
    refused,
    close: async () => {
      for (const socket of sockets) socket.destroy()
      await new Promise(resolve => server.close(resolve))
    },
  }
}

const upToZero = (bytes: Buffer, from: number): string => bytes.toString('utf8', from, bytes.indexOf(0, from))

/** The statement of a message: of a query, of one that is prepared, of one that was prepared before. */
function textOf(message: Buffer, names: Map<string, string>): string | undefined {
  if (message[0] === QUERY) return upToZero(message, 5)
  if (message[0] === PARSE) {
    const name = upToZero(message, 5)
    const text = upToZero(message, 5 + Buffer.byteLength(name) + 1)
    names.set(name, text)
    return text
  }
  if (message[0] !== BIND) return undefined
  const portal = upToZero(message, 5)
  return names.get(upToZero(message, 5 + Buffer.byteLength(portal) + 1))
}

/** The state of the transaction after the server's last message; undefined if it goes on. */
function lastStatus(chunk: Buffer): number | undefined {
  const ready = chunk.length - 6
  return ready >= 0 && chunk[ready] === code('Z') && chunk.readUInt32BE(ready + 1) === 5
    ? chunk[chunk.length - 1]
    : undefined
}

function refusal(sqlState: string, status: number): Buffer {
  const fields = `SERROR\0VERROR\0C${sqlState}\0Mcould not serialize access\0\0`
  return Buffer.concat([messageOf('E', fields), Buffer.from([code('Z'), 0, 0, 0, 5, status])])
}

const query = (text: string): Buffer => messageOf('Q', `${text}\0`)

function messageOf(letter: string, content: string): Buffer {
  const message = Buffer.alloc(5 + Buffer.byteLength(content))
  message.write(letter)
  message.writeUInt32BE(message.length - 1, 1)
  message.write(content, 5)
  return message
}
