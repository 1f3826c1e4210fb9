/**
 * Contract, "Resource server enforcement point": the server behind the gateway is looked at once when a
 * sidecar starts, if the file says where it is, and a fault is a warning with its remedy.
 */
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { lookAtUpstreams } from '../../src/enforcement/preflight/upstream-look.ts'
import { asOwner } from '../../src/wire/identifiers.ts'

let server: Server
let origin: string
let asked: string[]
beforeEach(async () => {
  asked = []
  server = createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`)
    if (request.url === '/silent') return
    response.writeHead(request.url === '/mcp' ? 400 : 404)
    // An answer that does not end must not keep the look waiting.
    if (request.url === '/mcp') response.write('data: ')
    else response.end()
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
afterEach(async () => {
  server.closeAllConnections()
  await new Promise(resolve => server.close(resolve))
})

const at = (upstream: string | undefined, owner = 'alice') => ({
  owner: asOwner(owner),
  path: `/mcp/${owner}`,
  upstream,
})

async function look(...owners: ReturnType<typeof at>[]): Promise<string[]> {
  const sentences: string[] = []
  await lookAtUpstreams(owners, { onFault: sentence => sentences.push(sentence) })
  return sentences
}

describe('The look at the server behind the gateway', () => {
  test('says nothing of a server that answers, whatever else it answers, and asks it once for all owners', async () => {
    expect(await look(at(`${origin}/mcp`), at(`${origin}/mcp`, 'bea'))).toEqual([])
    expect(asked).toEqual(['POST /mcp'])
  })

  test('warns of a 404 with the address, the setting and the rewriting of the path', async () => {
    const [sentence, ...others] = await look(at(`${origin}/mcp/alice`))
    expect(others).toEqual([])
    for (const what of [
      'alice:',
      `${origin}/mcp/alice`,
      '404',
      'upstream',
      'rewrite /mcp/alice',
      'docs/attaching.md',
    ])
      expect(sentence).toContain(what)
  })

  test('warns of a server that cannot be reached, with the cause', async () => {
    const gone = `${origin}/mcp`
    server.closeAllConnections()
    await new Promise(resolve => server.close(resolve))
    const [sentence] = await look(at(gone))
    expect(sentence).toMatch(/cannot be reached \(ECONNREFUSED\).*Start it, or correct upstream/)
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  })

  test('asks nobody if no address is configured', async () => {
    expect(await look(at(undefined))).toEqual([])
    expect(asked).toEqual([])
  })

  test('ends when the sidecar does, and then says nothing', async () => {
    const closing = new AbortController()
    const sentences: string[] = []
    const looking = lookAtUpstreams([at(`${origin}/silent`)], {
      onFault: sentence => sentences.push(sentence),
      signal: closing.signal,
    })
    await expect.poll(() => asked).toEqual(['POST /silent'])
    closing.abort()
    await looking
    expect(sentences).toEqual([])
  })
})
