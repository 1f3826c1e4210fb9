/**
 * The stream of a session that needs no grant (`methods: {GET: free}`), at an enforcement point inside its
 * resource. contract, "Authorized call": the rest of an answer to a call needs a grant, as the call did.
 */
import type { IncomingHttpHeaders } from 'node:http'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { s256Json } from '../../../src/wire/encoding.ts'
import {
  sendCall,
  serve,
  singleUseGrant,
  standEmbedded,
  standingGrant,
  verdictOf,
  type EmbeddedStand,
} from '../../support/embedded.ts'
import { startScriptedAuthority, type ScriptedAuthority } from '../../support/scripted-authority.ts'
import { newKey, TOOLS, type CallParts } from '../calls.ts'

const agent = newKey()
let authority: ScriptedAuthority
let stand: EmbeddedStand
let server: Awaited<ReturnType<typeof serve>>
/** What the server was sent. */
let arrived: IncomingHttpHeaders[]

beforeAll(async () => {
  authority = await startScriptedAuthority()
  const alice = { owner: 'alice', authority: authority.issuer, client_id: 'demo-tools', client_secret: 'shh' }
  const owners = [{ ...alice, tools: TOOLS, methods: { GET: 'free' } }]
  stand = await standEmbedded(authority.issuer, { owners })
  server = await serve(
    stand.point.protect(({ headers }, response) => {
      arrived.push(headers)
      response.writeHead(200).end('heard')
    }),
  )
})
afterAll(async () => {
  await server?.close()
  await stand?.close()
  await authority?.close()
})
beforeEach(() => void (arrived = []))

/** What becomes of a request for the stream. */
const ask = async (headers: Record<string, string[]>, token?: string): Promise<string> => {
  const proof = token === undefined ? {} : { token, signer: agent }
  const parts: CallParts = { method: 'GET', body: { state: 'absent' }, headers, ...proof }
  return verdictOf(await sendCall(server.port, parts))
}
const SESSION = { 'mcp-session-id': ['s'] }

describe('A stream of a session that needs no grant', () => {
  test.each(['last-event-id', 'Last-Event-ID', 'last_event_id', 'last.event-id'])(
    'begins anew for whoever presents none: %s does not reach the server',
    async name => {
      expect(await ask({ ...SESSION, [name]: ['7'] })).toBe('allow')
      expect(arrived).toMatchObject([{ 'mcp-session-id': 's' }])
      expect(Object.keys(arrived[0]!).filter(one => one.includes('event'))).toEqual([])
    },
  )

  test('goes on after an event under a standing grant, and under none for one use and none that has ended', async () => {
    const resumed = { ...SESSION, 'last-event-id': ['7'] }
    expect(await ask(resumed, standingGrant(authority, agent))).toBe('allow')
    expect(arrived).toMatchObject([{ 'last-event-id': '7' }])
    const operation = { tool: 'place_trade', params_s256: s256Json({}) }
    expect(await ask(resumed, singleUseGrant(authority, agent, operation))).toBe('403 operation_mismatch')
    const ended = standingGrant(authority, agent)
    authority.end(ended, 'revoked')
    expect(await ask(resumed, ended)).not.toBe('allow')
    expect(arrived).toHaveLength(1)
  })
})
