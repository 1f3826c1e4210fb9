/**
 * The story of the demo through a real Envoy that asks by HTTP (envoy/envoy-http.yaml), and what it makes of
 * outages. contract, "Errors".
 */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startChild, untilReady, type Child } from '../../src/dev/stack/child-process.ts'
import { envoyConfig } from '../../src/dev/stack/envoy-config.ts'
import { accepts, freePorts } from '../../src/dev/stack/ports.ts'
import { callByHand } from '../../src/dev/story/raw-call.ts'
import { STORY } from '../../src/dev/story/story.ts'
import { envoy } from '../support/envoy.ts'
import { describeWith } from '../support/requirement.ts'
import { startScene } from '../support/stack.ts'
import { startedOnce } from '../support/started.ts'

describeWith(await envoy(), 'the story, through Envoy that asks by HTTP', found => {
  const scene = startedOnce(() => startScene({ envoy: found, checksByHttp: true }))
  let lenient: Child | undefined
  let lenientUrl: string

  afterAll(() => lenient?.stop())

  // One after the other: each step goes on from the one before.
  for (const step of STORY) test(step.title, () => expect(step.walk(scene)).resolves.not.toEqual([]))

  describe('and then', () => {
    /** A second Envoy in front of the same sidecar and tools, set to let failures of the check pass. */
    beforeAll(async () => {
      const { checkPorts, toolServer, directory } = scene.stack
      const [port, documents] = (await freePorts(2)) as [number, number]
      const tool = toolServer.port
      const text = await envoyConfig(
        { envoy: port, checks: checkPorts, documents: [documents], tool },
        undefined,
        {
          byHttp: true,
        },
      )
      const file = join(directory, 'lenient.yaml')
      await writeFile(file, text.replace('failure_mode_allow: false', 'failure_mode_allow: true'))
      expect(text).toContain('failure_mode_allow: false')
      lenient = startChild({
        name: 'lenient',
        command: [
          ...found.command(file, directory),
          '--concurrency',
          '1',
          '--disable-hot-restart',
          '--log-level',
          'warning',
        ],
        logFile: join(directory, 'lenient.log'),
      })
      await untilReady(lenient, () => accepts(port))
      lenientUrl = `http://127.0.0.1:${port}/mcp/alice`
    })

    const arrivals = () => scene.stack.toolServer.record.arrivals.length
    const read = (resource: string) => callByHand({ resource, tool: 'portfolio_read' })

    test('what a client writes into the fields of the gateway counts for nothing', async () => {
      const before = arrivals()
      const body = JSON.stringify({
        jsonrpc: '2.0',
        id: 1,
        method: 'tools/call',
        params: { name: 'portfolio_read' },
      })
      const answer = await fetch(scene.stack.resource, {
        method: 'POST',
        body,
        headers: {
          'content-type': 'application/json',
          'x-usher-length': '0',
          'x-usher-peer': '6.6.6.6',
          'x-forwarded-method': 'GET',
          'x-forwarded-uri': '/jwks',
          'x-envoy-auth-partial-body': 'false',
        },
      })
      expect([answer.status, ((await answer.json()) as { error: string }).error]).toEqual([
        401,
        'insufficient_authorization',
      ])
      expect(arrivals()).toBe(before)
    })

    const ping = (headers: Record<string, string>) =>
      fetch(scene.stack.resource, {
        method: 'POST',
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' }),
        headers: {
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
          ...headers,
        },
      })

    test('whatever a client says with x-uma-*, or with what some take for it, is taken off', async () => {
      const forged = {
        'x-uma-owner': 'mallory',
        'x-uma-new': 'x',
        'x.uma.owner': 'mallory',
        'x-uma.tool': 'x',
      }
      expect((await ping(forged)).status).toBe(200)
      const names = Object.keys(scene.stack.toolServer.record.arrivals.at(-1)!.headers)
      expect(names.filter(name => /^x.uma./.test(name))).toEqual([])
    })

    test.each(['x-original-url', 'x.original.uri', 'x-http.method-override', 'x.method.override'])(
      'another method or path, said in %s, is refused',
      async name => {
        const before = arrivals()
        expect((await ping({ [name]: '/mcp/bea' })).status).toBe(400)
        expect(arrivals()).toBe(before)
      },
    )

    test.each(['/mcp/alice/x', '/mcp/bea', '/checks', '/check/mcp/alice'])('%s is 404', async path => {
      expect((await read(scene.stack.publicUrl + path)).status).toBe(404)
    })

    test('with the authority down it is 503 with our body, also from an Envoy that lets failures pass', async () => {
      const before = arrivals()
      expect((await read(lenientUrl)).status).toBe(401)
      for (const child of scene.stack.children.filter(({ name }) => name === 'authority')) await child.stop()
      for (const resource of [scene.stack.resource, lenientUrl]) {
        expect(await read(resource)).toMatchObject({
          status: 503,
          json: { error: 'temporarily_unavailable' },
        })
      }
      expect(arrivals()).toBe(before)
    })

    test('with the sidecar down it is 503', async () => {
      const before = arrivals()
      for (const child of scene.stack.children.filter(({ name }) => name === 'sidecar')) await child.stop()
      const answer = await read(scene.stack.resource)
      expect([answer.status, answer.headers.get('www-authenticate')]).toEqual([503, null])
      expect(arrivals()).toBe(before)
    })
  })
})
