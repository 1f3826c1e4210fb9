/**
 * contract, "Health" and "Authentication": where the HTTP door listens, and which clients it serves.
 */
import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { request as requestTls } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { fixedCertificates } from '../support/fixed-certificates.ts'
import { stand } from '../support/http-check-stand.ts'
import { makeLocalCa } from '../support/local-ca.ts'

describe('The listener', () => {
  test('tells its health, never as an allow, and ends connections once it drains', async () => {
    const { client, health } = await stand()
    // A gateway that leaves out the prefix asks here about a client's own /health: nothing is 2xx, which is
    // an allow.
    expect((await client.check({ target: '/health' })).status).toBe(304)
    for (const target of ['/health?x', '/health/']) expect((await client.check({ target })).status).toBe(404)
    health.drain()
    const answer = await client.check({ target: '/health' })
    expect([answer.status, JSON.parse(answer.body)]).toEqual([503, { status: 'draining' }])
    expect((await client.check({ target: '/check/a' })).status).toBe(200)
  })

  test('listens on a Unix socket', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'usher-http-check-'))
    onTestFinished(() => rm(directory, { recursive: true }))
    const path = join(directory, 'check.sock')
    const { client, address } = await stand({ address: { path } })
    expect(address).toBe(`unix:${path}`)
    expect((await client.check({ target: '/check/a' })).status).toBe(200)
  })

  /** Sends CONNECT on a connection whose other direction stays open, and hears the status line. */
  const sendConnect = async (address: string): Promise<{ socket: Socket; status: string }> => {
    const socket = connect({ port: Number(address.split(':')[1]), host: '127.0.0.1', allowHalfOpen: true })
    socket.on('error', () => undefined)
    const heard = new Promise<string>(resolve => socket.once('data', (data: Buffer) => resolve(String(data))))
    socket.write('CONNECT tool:443 HTTP/1.1\r\nhost: tool:443\r\n\r\n')
    return { socket, status: (await heard).split('\r\n')[0]! }
  }

  test('outlives who resets the connection after CONNECT', async () => {
    const { client, address } = await stand()
    const { socket, status } = await sendConnect(address)
    expect(status).toBe('HTTP/1.1 400 Bad Request')
    // An error of a socket that nobody listens to ends the process; Vitest tells of it as of an unhandled
    // one.
    socket.resetAndDestroy()
    expect((await client.check({ target: '/check/a' })).status).toBe(200)
  })

  test('keeps no connection after CONNECT, so that it can stop', async () => {
    const { address, stop } = await stand()
    const { socket } = await sendConnect(address)
    onTestFinished(() => void socket.destroy())
    await expect(stop()).resolves.toBeUndefined()
  }, 10_000)

  test('with TLS answers nobody without a certificate of the client CA', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'usher-http-check-'))
    onTestFinished(() => rm(directory, { recursive: true }))
    const { ca, sidecar, envoyDirectory } = await makeLocalCa(directory)
    const pem = (file: string) => readFileSync(file)
    const { address, calls } = await stand({
      tls: fixedCertificates({ cert: pem(sidecar.certFile), key: pem(sidecar.keyFile), ca: Buffer.from(ca) }),
    })
    const ask = (identity: object) =>
      new Promise<number>((resolve, reject) => {
        const sent = requestTls({
          host: '127.0.0.1',
          port: address.split(':')[1],
          path: '/check/a',
          servername: 'localhost',
          ca,
          agent: false,
          ...identity,
        })
        sent.on('error', reject).on('response', answer => {
          answer.resume()
          resolve(answer.statusCode!)
        })
        sent.end()
      })
    await expect(ask({})).rejects.toThrow()
    expect(calls).toEqual([])
    const identity = {
      cert: pem(join(envoyDirectory, 'cert.pem')),
      key: pem(join(envoyDirectory, 'key.pem')),
    }
    expect(await ask(identity)).toBe(200)
  })
})
