/**
 * The story with TLS throughout and no development switch: agents to Envoy, everybody to the authority, Envoy
 * to the sidecar mutually. contract, "Authentication".
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect } from 'node:http2'
import { request } from 'node:https'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openScene, type Scene } from '../../src/dev/story/scene.ts'
import type { Stack } from '../../src/dev/stack/stack.ts'
import { STORY } from '../../src/dev/story/story.ts'
import { envoy } from '../support/envoy.ts'
import { makeLocalCa, trust } from '../support/local-ca.ts'
import { describeWith } from '../support/requirement.ts'
import { startStack } from '../support/stack.ts'

/** The question of somebody without a certificate: why nobody answered, or undefined if somebody did. */
type Stranger = (port: number, ca: string) => Promise<Error | undefined>

const strangerByGrpc: Stranger = async (port, ca) => {
  const session = connect(`https://localhost:${port}`, { ca })
  const failure = await new Promise<Error | undefined>(resolve => {
    session.once('error', resolve)
    const asked = session.request({
      ':method': 'POST',
      ':path': '/envoy.service.auth.v3.Authorization/Check',
      'content-type': 'application/grpc',
      te: 'trailers',
    })
    asked.once('error', resolve)
    asked.once('response', () => resolve(undefined))
    asked.end(Buffer.alloc(5))
  })
  session.destroy()
  return failure
}

const strangerByHttp: Stranger = (port, ca) =>
  new Promise(resolve => {
    const asked = request(`https://localhost:${port}/check/mcp/alice`, { ca, agent: false })
    asked.once('error', resolve)
    asked.once('response', () => resolve(undefined))
    asked.end()
  })

const DOORS: [what: string, byHttp: boolean, stranger: Stranger][] = [
  ['gRPC', false, strangerByGrpc],
  ['HTTP', true, strangerByHttp],
]

for (const [what, checksByHttp, stranger] of DOORS)
  describeWith(
    await envoy(),
    `the story through an Envoy that asks by ${what}, with TLS throughout`,
    found => {
      let directory: string
      let distrust: () => void
      let ca: string
      let stack: Stack | undefined
      let scene: Scene

      beforeAll(async () => {
        directory = await mkdtemp(join(tmpdir(), 'usher-tls-'))
        const tls = await makeLocalCa(directory)
        ca = tls.ca
        distrust = trust(ca)
        stack = await startStack({ envoy: found, tls, checksByHttp })
        scene = await openScene(stack)
      })
      afterAll(async () => {
        await scene?.close()
        await stack?.stop()
        distrust?.()
        await rm(directory, { recursive: true, force: true })
      })

      test('every address is https under a DNS name, and loopback is not specially admitted', () => {
        const { issuer, ownerApi, publicUrl, devLoopback } = stack!
        for (const url of [issuer, ownerApi, publicUrl]) expect(url).toMatch(/^https:\/\/localhost:\d+$/)
        expect(devLoopback).toBe(false)
      })

      for (const step of STORY) test(step.title, () => expect(step.walk(scene)).resolves.not.toEqual([]))

      test('nobody without a certificate of the CA reaches the check: whoever does can spend grants', async () => {
        const failure = await stranger(stack!.checkPorts[0]!, ca)
        expect(failure?.message).toMatch(/certificate required|closed|ECONNRESET/i)
      })
    },
  )
