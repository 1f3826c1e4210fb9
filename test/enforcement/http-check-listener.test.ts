/** contract, "Health" and "Authentication": where the HTTP door listens, and for whom. */
import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { request as requestTls } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { fixedCertificates } from '../../src/http/certificates.ts'
import { stand } from '../support/http-check-stand.ts'
import { makeLocalCa } from '../support/local-ca.ts'

describe('The listener', () => {
  test('tells its health, never as an allow, and ends connections once it drains', async () => {
    const { client, health } = await stand()
    // A gateway that leaves out the prefix asks here about a client's own /health: nothing is 2xx, which is an allow.
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
