/**
 * Owns the load generator's gRPC channel: HTTP/2 frames written by hand (RFC 9113), because the generator
 * shares the machine with what it measures and Node's own client costs as much per call as the server. Plain
 * TCP, unary calls, small messages, one server: no more.
 */
import { connect, type Socket } from 'node:net'

export interface CheckChannel {
  /**
   * Sends one CheckRequest; answers the bytes of its CheckResponse. Rejects if the stream or the
   * connection ends otherwise.
   */
  call(message: Buffer): Promise<Buffer>
  close(): void
}

const FRAME_BYTES = 9
const FRAME_PAYLOAD_MAX = 16_384
const PREFIX_BYTES = 5
const DATA = 0
const HEADERS = 1
const RST_STREAM = 3
const SETTINGS = 4
const PING = 6
const GOAWAY = 7
const WINDOW_UPDATE = 8
const END_STREAM = 0x1
const ACK = 0x1
const END_HEADERS = 0x4
const PADDED = 0x8
const SETTING_INITIAL_WINDOW = 4
const WINDOW_DEFAULT = 65_535
const WINDOW_MAX = 2 ** 31 - 1

/** As Envoy sends them, its timeout included. */
const REQUEST_HEADERS: [string, string][] = [
  [':method', 'POST'],
  [':scheme', 'http'],
  [':path', '/envoy.service.auth.v3.Authorization/Check'],
  [':authority', '127.0.0.1'],
  ['te', 'trailers'],
  ['grpc-timeout', '3000m'],
  ['content-type', 'application/grpc'],
]
/** Literal fields without indexing and without Huffman (RFC 7541 §6.2.2): the same bytes on every stream. */
const HEADER_BLOCK = Buffer.concat(
  REQUEST_HEADERS.flatMap(pair => [
    Buffer.of(0),
    ...pair.flatMap(text => [Buffer.of(text.length), Buffer.from(text)]),
  ]),
)

interface Waiting {
  resolve(answer: Buffer): void
  reject(error: Error): void
  chunks: Buffer[]
}

/** Opens a connection to a check server on this machine. */
export async function openCheckChannel(port: number): Promise<CheckChannel> {
  const socket = connect({ host: '127.0.0.1', port, noDelay: true })
  await new Promise<void>((resolve, reject) => socket.once('connect', resolve).once('error', reject))
  return speak(socket)
}

function speak(socket: Socket): CheckChannel {
  const streams = new Map<number, Waiting>()
  const held: { frames: Buffer; bytes: number }[] = []
  let outgoing: Buffer[] = []
  let nextStream = 1
  let window = WINDOW_DEFAULT
  let unread: Buffer = Buffer.alloc(0)

  const write = (bytes: Buffer): void => {
    // What is asked for in one turn of the event loop leaves in one write.
    if (outgoing.push(bytes) === 1) {
      setImmediate(() => {
        const all = outgoing
        outgoing = []
        if (!socket.destroyed) socket.write(Buffer.concat(all))
      })
    }
  }
  const fail = (why: string): void => {
    socket.destroy()
    const error = new Error(`the check server's connection ended: ${why}`)
    for (const stream of streams.values()) stream.reject(error)
    streams.clear()
  }
  const sendHeld = (): void => {
    while (held.length > 0 && held[0]!.bytes <= window) {
      const { frames, bytes } = held.shift()!
      window -= bytes
      write(frames)
    }
  }
  const end = (id: number): void => {
    const stream = streams.get(id)
    streams.delete(id)
    if (stream === undefined) return
    const answer = stream.chunks.length === 1 ? stream.chunks[0]! : Buffer.concat(stream.chunks)
    if (
      answer.length >= PREFIX_BYTES &&
      answer[0] === 0 &&
      answer.readUInt32BE(1) === answer.length - PREFIX_BYTES
    )
      stream.resolve(answer.subarray(PREFIX_BYTES))
    else stream.reject(new Error('a check was answered with a gRPC error and no message'))
  }
  const take = (type: number, flags: number, id: number, payload: Buffer): void => {
    if ((type === DATA || type === HEADERS) && (flags & PADDED) !== 0) return fail('a padded frame')
    if (type === DATA && payload.length > 0) streams.get(id)?.chunks.push(payload)
    if ((type === DATA || type === HEADERS) && (flags & END_STREAM) !== 0) end(id)
    if (type === SETTINGS && (flags & ACK) === 0) write(frame(SETTINGS, ACK, 0, Buffer.alloc(0)))
    if (type === PING && (flags & ACK) === 0) write(frame(PING, ACK, 0, payload))
    if (type === RST_STREAM) fail(`stream ${id} was reset with code ${payload.readUInt32BE(0)}`)
    if (type === GOAWAY) fail(`the server said goodbye with code ${payload.readUInt32BE(4)}`)
    if (type === WINDOW_UPDATE && id === 0) {
      window += payload.readUInt32BE(0)
      sendHeld()
    }
  }

  socket.on('data', (chunk: Buffer) => {
    const bytes = unread.length === 0 ? chunk : Buffer.concat([unread, chunk])
    let at = 0
    while (bytes.length - at >= FRAME_BYTES) {
      const length = bytes.readUIntBE(at, 3)
      const start = at + FRAME_BYTES
      if (bytes.length - start < length) break
      at = start + length
      take(
        bytes[start - 6]!,
        bytes[start - 5]!,
        bytes.readUInt32BE(start - 4) & WINDOW_MAX,
        bytes.subarray(start, at),
      )
    }
    unread = bytes.subarray(at)
  })
  socket.on('error', error => fail(error.message))
  socket.on('close', () => fail('closed'))

  write(preface())
  return {
    call: message => {
      const id = nextStream
      nextStream += 2
      const data = Buffer.allocUnsafe(PREFIX_BYTES + message.length)
      if (data.length > FRAME_PAYLOAD_MAX) throw new Error('a CheckRequest of the bench fits one frame')
      data[0] = 0
      data.writeUInt32BE(message.length, 1)
      message.copy(data, PREFIX_BYTES)
      const frames = Buffer.concat([
        frame(HEADERS, END_HEADERS, id, HEADER_BLOCK),
        frame(DATA, END_STREAM, id, data),
      ])
      return new Promise((resolve, reject) => {
        if (socket.destroyed) return reject(new Error("the check server's connection is closed"))
        streams.set(id, { resolve, reject, chunks: [] })
        held.push({ frames, bytes: data.length })
        sendHeld()
      })
    },
    close: () => socket.destroy(),
  }
}

/**
 * The connection preface: streams may bring their whole answer at once, and the connection as much as there
 * will ever be.
 */
function preface(): Buffer {
  const setting = Buffer.alloc(6)
  setting.writeUInt16BE(SETTING_INITIAL_WINDOW, 0)
  setting.writeUInt32BE(WINDOW_MAX, 2)
  const more = Buffer.alloc(4)
  more.writeUInt32BE(WINDOW_MAX - WINDOW_DEFAULT, 0)
  return Buffer.concat([
    Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'),
    frame(SETTINGS, 0, 0, setting),
    frame(WINDOW_UPDATE, 0, 0, more),
  ])
}

// oxlint-disable-next-line eslint/max-params -- the four parts of a frame
function frame(type: number, flags: number, stream: number, payload: Buffer): Buffer {
  const head = Buffer.allocUnsafe(FRAME_BYTES)
  head.writeUIntBE(payload.length, 0, 3)
  head[3] = type
  head[4] = flags
  head.writeUInt32BE(stream, 5)
  return Buffer.concat([head, payload])
}
