/**
 * contract, "Limits": a client of a bridge that listens has a share of its sessions, and takes none of the
 * others'.
 */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { clientSecret } from '../../../src/agent/bridge/listen-token.ts'
import { useBridges } from '../../support/bridge-stand.ts'
import { listeningBridge } from '../../support/listening-bridge.ts'

const SHARE = 16
const stand = useBridges({ stack: {} })

/** What one client of 2025-11-25 sends to a bridge, with a secret of its own. */
function callerAt(url: URL, secret: string) {
  const authorization = `Bearer ${secret}`
  const posted = async (body: object, session?: string) => {
    const answer = await fetch(url, {
      method: 'POST',
      headers: {
        authorization,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        ...(session !== undefined && { 'mcp-session-id': session }),
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, ...body }),
    })
    const text = await answer.text()
    return { status: answer.status, text, session: answer.headers.get('mcp-session-id') ?? '' }
  }
  const clientInfo = { name: 'a client', version: '1' }
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo }
  return {
    begin: () => posted({ method: 'initialize', params }),
    ping: async (session: string) => (await posted({ method: 'ping' }, session)).status,
    /**
     * Opens the stream of a session, which is in use until it is closed. An open stream answers nothing, so
     * it is asked for twice: that one is refused proves that the other is open.
     */
    stream: async (session: string) => {
      const ending = new AbortController()
      const headers = { authorization, accept: 'text/event-stream', 'mcp-session-id': session }
      const asked = [1, 2].map(() => fetch(url, { headers, signal: ending.signal }))
      for (const one of asked) one.catch(() => undefined)
      const refusal = await Promise.race(asked)
      await refusal.text()
      expect(refusal.status).toBe(409)
      return () => ending.abort()
    },
  }
}

async function twoCallers() {
  const file = join(stand.folder, `token-${stand.unique()}`)
  const { url } = await listeningBridge(stand, '--listen-token-file', file)
  const token = (await readFile(file, 'utf8')).trim()
  return [callerAt(url, clientSecret(token, 'greedy')), callerAt(url, clientSecret(token, 'other'))] as const
}

describe('A client of a bridge that listens', () => {
  it('that holds its whole share in streams is refused more, and leaves the others their room', async () => {
    const [greedy, other] = await twoCallers()
    const quiet = await other.begin()
    const closings: (() => void)[] = []
    for (let count = 0; count < SHARE; count++) {
      const { session } = await greedy.begin()
      closings.push(await greedy.stream(session))
    }
    const beyond = await greedy.begin()
    expect([beyond.status, beyond.text]).toEqual([503, expect.stringContaining('which is its share')])
    expect((await other.begin()).status).toBe(200)
    closings[0]!()
    await expect.poll(async () => (await greedy.begin()).status).toBe(200)
    expect(await other.ping(quiet.session)).toBe(200)
  })

  it('loses the session that it used least recently beyond its share, and none of another client', async () => {
    const [greedy, other] = await twoCallers()
    const quiet = await other.begin()
    const own: string[] = []
    for (let count = 0; count < SHARE; count++) own.push((await greedy.begin()).session)
    expect(await greedy.ping(own[0]!)).toBe(200)
    await expect.poll(async () => (await greedy.begin()).status).toBe(200)
    const standing = [await greedy.ping(own[0]!), await greedy.ping(own[1]!), await other.ping(quiet.session)]
    expect(standing).toEqual([200, 404, 200])
  })

  it('that begins many sessions at the same moment gets no more than its share', async () => {
    const [greedy, other] = await twoCallers()
    const begun = await Promise.all(Array.from({ length: 4 * SHARE }, () => greedy.begin()))
    const sessions = begun.filter(({ status }) => status === 200).map(({ session }) => session)
    const standing = await Promise.all(sessions.map(session => greedy.ping(session)))
    expect(standing.filter(status => status === 200).length).toBeLessThanOrEqual(SHARE)
    expect((await other.begin()).status).toBe(200)
  })
})
