/**
 * A certificate that is not trusted is named as the cause, with the remedy, by every client: contract, "Owner
 * API" and "Resource metadata (RFC 9728)".
 */
import { createServer, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createAgent } from '../../src/agent/index.ts'
import { createOwnerClient, readAll } from '../../src/owner/index.ts'
import { issueCertificate, makeCa } from '../support/local-ca.ts'
import { upstreamTo } from '../support/opened-upstream.ts'
import { newKey } from '../support/wire-samples.ts'

const NAMED = /a CA that is not known here \([A-Z_]+\)\. Name that CA in NODE_EXTRA_CA_CERTS\./
let server: Server
let origin: string

beforeAll(async () => {
  const { cert, key } = await issueCertificate(await makeCa(), 'a private service')
  server = createServer({ cert, key }, (_request, response) => response.end('{}'))
  await new Promise<void>(resolve => server.listen(0, 'localhost', resolve))
  origin = `https://localhost:${(server.address() as AddressInfo).port}`
})
afterAll(() => void server.close())

describe('An untrusted certificate', () => {
  it('is told by the agent', async () => {
    const call = createAgent({ key: newKey() }).call({ resource: `${origin}/mcp`, tool: 'x' })
    await expect(call).rejects.toMatchObject({
      code: 'unreachable',
      detail: expect.stringMatching(NAMED) as string,
    })
  })

  it('is told by the bridge', async () => {
    const upstream = upstreamTo(`${origin}/mcp`)
    await expect(upstream.listTools()).rejects.toMatchObject({
      code: 'unreachable',
      detail: expect.stringMatching(NAMED) as string,
    })
    await upstream.close()
  })

  it("is told by the owner's client", async () => {
    const client = createOwnerClient({ api: origin, issuer: origin, key: newKey() })
    await expect(readAll(client.pending())).rejects.toMatchObject({
      code: 'unreachable',
      detail: expect.stringMatching(NAMED) as string,
    })
  })
})
