/**
 * The stream of a session that needs no grant (`methods: {GET: free}`), at an enforcement point inside its
 * resource. contract, "Authorized call": the rest of an answer to a call needs a grant, as the call did.
 */
import type { IncomingHttpHeaders } from 'node:http'
import { beforeEach, describe, expect, test } from 'vitest'
import { s256Json } from '../../../src/wire/encoding.ts'
import {
  embeddedOwner,
  sendCall,
  singleUseGrant,
  standingGrant,
  standProtected,
  verdictOf,
} from '../../support/embedded.ts'
import { startScriptedAuthority } from '../../support/scripted-authority.ts'
import { startedOnce } from '../../support/started.ts'
import { newKey, type CallParts } from '../calls.ts'

const agent = newKey()
/** What the server was sent. */
let arrived: IncomingHttpHeaders[]
beforeEach(() => void (arrived = []))
const authority = startedOnce(startScriptedAuthority)
const stand = startedOnce(() =>
  standProtected(
    authority.issuer,
    ({ headers }, response) => {
      arrived.push(headers)
      response.writeHead(200).end('heard')
    },
    { owners: [embeddedOwner(authority.issuer, { methods: { GET: 'free' } })] },
  ),
)

/** What becomes of a request for the stream. */
const ask = async (headers: Record<string, string[]>, token?: string): Promise<string> => {
  const proof = token === undefined ? {} : { token, signer: agent }
  const parts: CallParts = { method: 'GET', body: { state: 'absent' }, headers, ...proof }
  return verdictOf(await sendCall(stand.port, parts))
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
