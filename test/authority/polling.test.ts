/**
 * Replicas that wake one another by nothing, over an engine that has no NOTIFY: contract, "Events", which
 * arrive all the same.
 */
import { describe, expect, it, onTestFinished } from 'vitest'
import { watchEvents } from '../../src/owner/index.ts'
import { startOfReading } from '../../src/storage/authority/ledger/events.ts'
import { startTestAuthority } from '../support/authority.ts'
import { connected, freshDatabase } from '../support/postgres.ts'
import { decide, testAgent } from '../support/test-agent.ts'

describe('With UMA_AS_NOTIFY=false', () => {
  it('an event made at one replica reaches a stream at the other, and nobody is notified', async () => {
    const database = await freshDatabase()
    onTestFinished(() => database.close())
    await connected(database.url, administrator =>
      administrator.query('REVOKE EXECUTE ON FUNCTION pg_notify(text, text) FROM PUBLIC'),
    )
    const environment = { DATABASE_URL: database.url, UMA_AS_NOTIFY: 'false' }
    const one = await startTestAuthority({ environment })
    onTestFinished(() => one.close())
    const other = await startTestAuthority({ beside: one })
    onTestFinished(() => other.close())

    const gone = new AbortController()
    const { alice } = one
    const access = { api: other.ownerUrl, issuer: other.issuer, key: alice.key }
    const { after } = await startOfReading(database.db, alice.owner)
    const stream = watchEvents(access, { signal: gone.signal, lastEventId: String(after) })[
      Symbol.asyncIterator
    ]()
    const heard: string[] = []
    const listening = (async () => {
      for (let next = await stream.next(); !next.done; next = await stream.next()) {
        heard.push(next.value.event)
        if (next.value.event === 'decided') return
      }
    })()
    const agent = testAgent(one)
    const operation = { tool: 'place_trade', params: {} }
    const { body } = await agent.ask('place_trade', { operation })
    expect(await decide(one, agent.handle, 'approved')).toMatchObject({ status: 200 })
    await listening
    gone.abort()
    expect(heard).toContain('decided')
    expect((await agent.present((body as { ticket: string }).ticket)).status).toBe(200)
  })
})
