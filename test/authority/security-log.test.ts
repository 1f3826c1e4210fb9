/** Contract, "Events" and "Health": an operator is told of each security event by one line and one count. */
import { describe, expect, it } from 'vitest'
import { startSecurityLog } from '../../src/authority/security-log.ts'
import { createLogger } from '../../src/http/telemetry/log.ts'
import { appendEvent } from '../../src/storage/authority/ledger/events.ts'
import { appendLedger } from '../../src/storage/authority/ledger/ledger.ts'
import { number } from '../../src/storage/authority/ledger/positions.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import { asFamily, asHandle } from '../../src/wire/identifiers.ts'
import * as seed from '../support/seed.ts'
import { generatePrivateJwk, importPrivateJwk } from '../../src/wire/signatures/keys.ts'
import { authorityStand } from '../support/stands.ts'
import { testAgent } from '../support/test-agent.ts'

const authority = authorityStand({ environment: { UMA_AS_LOG_LEVEL: 'silent' } })

interface Line {
  event: string
  [member: string]: unknown
}

/** Listens in place of the authority's own log. */
function listening(clock = Date.now) {
  const lines: Line[] = []
  const counted: string[] = []
  const answered: number[] = []
  const log = createLogger({
    name: 'test',
    level: 'info',
    write: line => void lines.push(JSON.parse(line) as Line),
  })
  const metrics = {
    securityEvent: (event: string) => void counted.push(event),
    answered: ({ status }: { status: number }) => void answered.push(status),
  }
  const observe = startSecurityLog(authority.database.db, { log, metrics, clock })
  return { lines, counted, answered, observe }
}
describe('The security log', () => {
  it('counts an approval, a grant and a revoke, each once', async () => {
    const agent = testAgent(authority)
    await agent.granted('portfolio_read')
    const revoked = await authority.call(authority.alice, {
      method: 'POST',
      target: '/owner/connections/revoke',
      json: { handle: agent.handle },
    })
    expect(revoked.status).toBe(200)
    const counts = async () => {
      const text = await (await fetch(`${authority.metricsUrl}/metrics`)).text()
      return [...text.matchAll(/^usher_security_events_total\{event="(\w+)"\} (\d+)$/gm)].map(
        ([, event, n]) => [event, Number(n)].join(' '),
      )
    }
    await expect.poll(counts).toEqual(expect.arrayContaining(['approved 1', 'granted 1', 'revoked 1']))
    expect((await counts()).filter(one => /promised|touched/.test(one))).toEqual([])
  })

  it('names whom and what by ids, after the commit, once, and holds nothing that an agent wrote', async () => {
    const { lines, counted } = listening()
    const { db } = authority.database
    const owner = await seed.seedOwner(db)
    const [family, handle] = [asFamily('fam_1'), asHandle('jkt:abc')]
    await appendLedger(db, owner, { kind: 'promised', family, handle, data: { reason: 'unheard-of' } })
    await appendLedger(db, owner, { kind: 'denied', family, handle, data: { reason: 'unheard-of' } })
    await inTransaction(db, tx =>
      appendEvent(tx, owner, 'resource_server_pending', { client_id: 'https://x.example/' }),
    )
    await Promise.all([number(db, owner), number(db, owner)])
    expect(lines.map(({ time: _time, ...line }) => line)).toEqual([
      { level: 'info', name: 'test', event: 'denied', owner, seq: 2, handle, family, msg: 'security' },
      { level: 'info', name: 'test', event: 'resource_server_pending', owner, seq: 1, msg: 'security' },
    ])
    expect(counted).toEqual(['denied', 'resource_server_pending'])
  })

  it('counts every refused credential, and writes 60 lines a minute of one route at most', () => {
    let now = 0
    const { lines, counted, answered, observe } = listening(() => now)
    const refused = { method: 'GET', route: '/owner/pending', status: 401, seconds: 0 }
    for (let nth = 0; nth < 100; nth++) observe(refused)
    observe({ ...refused, status: 403 })
    expect([lines.length, counted.length, answered.length]).toEqual([60, 100, 101])
    observe({ ...refused, route: '/owner/ledger' })
    now += 1_000
    observe(refused)
    expect(lines.slice(60)).toMatchObject([
      { event: 'credential_refused', route: '/owner/ledger' },
      { event: 'credential_refused', route: '/owner/pending' },
    ])
  })

  it('is counted if the authority’s other numbers are read, beside whether its database answers', async () => {
    const refused = await authority.call(
      { ...authority.alice, key: importPrivateJwk(generatePrivateJwk()) },
      { target: '/owner/pending' },
    )
    expect(refused.status).toBe(401)
    const text = await (await fetch(`${authority.metricsUrl}/metrics`)).text()
    expect(text).toMatch(/^usher_security_events_total\{event="credential_refused"\} [1-9]/m)
    expect(text).toMatch(/^usher_database_up 1$/m)
  })
})
