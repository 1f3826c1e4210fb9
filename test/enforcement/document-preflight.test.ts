/**
 * What browsers ask before a page reads a document of a sidecar. contract, "Resource server enforcement
 * point": its public documents are everybody's.
 */
import { request } from 'undici'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Sidecar } from '../../src/enforcement/main.ts'
import { startTestSidecar } from '../support/sidecar.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const directory = temporaryFolder('preflight')
let sidecar: Sidecar
let documents: string
beforeAll(async () => {
  // Whether a page may read needs no authority.
  sidecar = await startTestSidecar({ directory, authority: { issuer: 'http://127.0.0.1:1' } })
  documents = `http://${sidecar.httpAddress}`
})
afterAll(() => sidecar.close())

describe('A browser that asks for a page of any origin', () => {
  const asked = 'authorization,content-type,last-event-id,mcp-protocol-version,mcp-session-id'
  const headers = {
    origin: 'https://page.example',
    'access-control-request-method': 'GET',
    'access-control-request-headers': asked,
  }

  test.each<[string, number, string | undefined]>([
    ['/jwks', 204, '*'],
    ['/.well-known/oauth-protected-resource', 204, '*'],
    ['/.well-known/oauth-protected-resource/mcp/alice', 204, '*'],
    // Signed for, or an operator's.
    ['/owner-resources', 405, undefined],
    ['/owner-resources/alice', 405, undefined],
    ['/metrics', 405, undefined],
    ['/health', 405, undefined],
  ])('is answered at %s: %s', async (path, status, origin) => {
    const answer = await request(documents + path, { method: 'OPTIONS', headers })
    await answer.body.dump()
    expect([answer.statusCode, answer.headers['access-control-allow-origin']]).toEqual([status, origin])
    if (status === 204) expect(answer.headers['access-control-allow-headers']).toBe(asked)
  })
})
