import { Server, ServerCredentials, status, type sendUnaryData, type ServerUnaryCall } from '@grpc/grpc-js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openCheckChannel, type CheckChannel } from '../../bench/load/check-channel.ts'
import { CHECK_PATH } from '../../src/enforcement/doors/grpc/check-messages.ts'

const asIs = (bytes: Buffer): Buffer => bytes
const SERVICE = {
  Check: {
    path: CHECK_PATH,
    requestStream: false,
    responseStream: false,
    requestSerialize: asIs,
    requestDeserialize: asIs,
    responseSerialize: asIs,
    responseDeserialize: asIs,
  },
} as const

type Reply = (call: ServerUnaryCall<Buffer, Buffer>, callback: sendUnaryData<Buffer>) => void

let server: Server
let port: number
let reply: Reply
const open: CheckChannel[] = []

beforeAll(async () => {
  server = new Server()
  server.addService(SERVICE, {
    Check: (call: ServerUnaryCall<Buffer, Buffer>, callback: sendUnaryData<Buffer>) => reply(call, callback),
  })
  port = await new Promise((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, given) =>
      error ? reject(error) : resolve(given),
    )
  })
})
afterAll(() => {
  for (const channel of open) channel.close()
  server.forceShutdown()
})

async function channel(): Promise<CheckChannel> {
  const opened = await openCheckChannel(port)
  open.push(opened)
  return opened
}

const echo: Reply = (call, callback) => callback(null, call.request)

describe('The channel of the load generator speaks gRPC like any other client', () => {
  it.each([
    ['an empty message', 0],
    ['a usual one', 2_500],
    ['the largest that fits one frame', 16_379],
  ])('%s comes back as it was sent', async (_what, bytes) => {
    reply = echo
    const message = Buffer.alloc(bytes, 'x')
    expect((await (await channel()).call(message)).equals(message)).toBe(true)
  })

  it('many calls at once, more than the connection may hold unread, are each answered by their own answer', async () => {
    reply = echo
    const opened = await channel()
    const messages = Array.from({ length: 500 }, (_, n) => Buffer.from(`${n} ${'x'.repeat(5_000)}`))
    const answers = await Promise.all(messages.map(message => opened.call(message)))
    expect(answers.map(String)).toEqual(messages.map(String))
  })

  it('a gRPC error is no answer', async () => {
    reply = (_call, callback) => callback({ code: status.UNAVAILABLE })
    await expect((await channel()).call(Buffer.from('x'))).rejects.toThrow('gRPC error')
  })

  it('every call that waits fails when the connection ends, and so does every later one', async () => {
    const asked = Promise.withResolvers<void>()
    reply = () => asked.resolve()
    const opened = await channel()
    const waiting = opened.call(Buffer.from('x'))
    const refused = expect(waiting).rejects.toThrow('ended')
    await asked.promise
    opened.close()
    await refused
    await expect(opened.call(Buffer.from('x'))).rejects.toThrow('closed')
  })
})
