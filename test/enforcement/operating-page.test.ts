import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { createClock } from '../../src/surface/clock.ts'
import { createQuotas } from '../../src/authority/quotas.ts'
import { startCheckpoints } from '../../src/authority/ledger/checkpoints.ts'
import { createAuthorityMetrics } from '../../src/authority/metrics.ts'
import { reportLeases } from '../../src/authority/protection/lease-reports.ts'
import { createMetrics } from '../../src/enforcement/telemetry/metrics.ts'
import { createLogger } from '../../src/http/telemetry/log.ts'
import { SECURITY_EVENTS } from '../../src/http/telemetry/security-log.ts'
import { listen } from '../../src/http/servers/server.ts'
import { createServerMetrics } from '../../src/http/telemetry/server-metrics.ts'
import { NOTICES_TOLD } from '../../src/organization/notices/outbox.ts'
import { openDatabase } from '../../src/storage/authority/database.ts'
import { generatePrivateJwk, importPrivateJwk } from '../../src/wire/signatures/keys.ts'
import { listPoints } from '../support/repository.ts'

const page = readFileSync(new URL('../../docs/operating.md', import.meta.url), 'utf8')

/** `name|type|meaning` of each point of the list that follows a line of the page. */
function documented(after: string): string[] {
  const text = page.slice(page.indexOf(`\n${after}\n`)).split(/\n(?=Of the|###|## |`step`)/)[1] ?? ''
  return listPoints(text)
    .flatMap(point => /^`(usher_\w+)` \((\w+)[^)]*\): (.*)$/.exec(point.text)?.slice(1).join('|') ?? [])
    .sort()
}

/** The same of what a process says of itself. */
function told(text: string): string[] {
  const types = new Map([...text.matchAll(/^# TYPE (\w+) (\w+)$/gm)].map(([, name, type]) => [name, type]))
  const helps = [...text.matchAll(/^# HELP (usher_\w+) (.*)$/gm)]
  return helps.map(([, name, help]) => [name, types.get(name), help].join('|')).sort()
}

describe('docs/operating.md tells of each metric what the process itself tells of it', () => {
  test('at the sidecar', async () => {
    const metrics = createMetrics()
    const idle = { connections: 0, inFlight: 0, waiting: 0 }
    metrics.observe({
      reports: { waiting: () => 0, bytes: () => 0, left: () => 0 },
      pools: { challenges: () => idle, grants: () => idle },
    })
    const { text } = await metrics.render()
    expect(documented('Of the sidecar:')).toEqual(told(text))
    metrics.leases()
    const leased = [
      ...documented('Of the sidecar:'),
      ...documented('Of the sidecar with `liveness: leased`, too:'),
    ]
    expect(leased.sort()).toEqual(told((await metrics.render()).text))
    expect(text).toMatch(/^process_resident_memory_bytes /m)
  })

  test('at the authority', async () => {
    const database = openDatabase({ url: 'postgres://nowhere', poolMax: 2 })
    const logger = createLogger({ name: 'test', level: 'silent' })
    const clock = createClock({ local: Date.now })
    const metrics = createAuthorityMetrics(
      [{ name: 'home', authority: { database, clock, quotas: createQuotas() } }],
      { logger, healthy: () => true },
    )
    reportLeases([database.db], { log: logger, metrics, streams: [] })
    const server = metrics.createServer()
    const address = await listen(server, { host: '127.0.0.1', port: 0 })
    const text = await (await fetch(`http://${address}/metrics`)).text()
    const all = [...documented('Of the authority:'), ...documented('Of the authority, beside these:')]
    expect(all.sort()).toEqual(told(text))
    await server.close()
    const issuer = 'https://as.example'
    const key = importPrivateJwk(generatePrivateJwk())
    const checkpoints = startCheckpoints(database.db, { issuer, key, log: logger, clock: Date.now })
    const logging = createAuthorityMetrics(
      [{ name: 'home', authority: { database, clock, quotas: createQuotas(), checkpoints } }],
      { logger, healthy: () => true },
    ).createServer()
    const there = await listen(logging, { host: '127.0.0.1', port: 0 })
    const more = await (await fetch(`http://${there}/metrics`)).text()
    expect(told(more).filter(line => !told(text).includes(line))).toEqual(
      documented('Of the authority with `UMA_AS_LOG_KEYS_FILE`, too:'),
    )
    await logging.close()
    await database.close()
  })

  test('at the organization, beside the same', async () => {
    const around = { logger: createLogger({ name: 'test', level: 'silent' }), healthy: () => true }
    const clock = createClock({ local: Date.now })
    const measured = { pools: {}, clock, databaseAnswers: () => Promise.resolve(false) }
    const metrics = createServerMetrics('organization', measured, around)
    metrics.addCounter(NOTICES_TOLD)({ outcome: 'ended' })
    metrics.addCounter(SECURITY_EVENTS)({ event: 'joined' })
    const server = metrics.createServer()
    const address = await listen(server, { host: '127.0.0.1', port: 0 })
    const text = await (await fetch(`http://${address}/metrics`)).text()
    const own = documented(
      'Of the organization, at `UMA_ORG_METRICS_LISTEN`, beside those of the authority (its one pool is `all`):',
    )
    expect([...own, ...documented('Of the authority:')].sort()).toEqual(told(text))
    await server.close()
  })
})

test('a word that an authority makes up is counted as other', async () => {
  const metrics = createMetrics()
  metrics.decided({ outcome: 'deny', reason: 'made_up_by_an_authority', step: 'introspect', ms: 1 })
  metrics.decided({ outcome: 'deny', reason: 'connection_revoked', step: 'introspect', ms: 1 })
  const { text } = await metrics.render()
  expect(text).toContain('usher_decisions_total{outcome="deny",reason="other",step="introspect"} 1')
  expect(text).toContain('reason="connection_revoked"')
  expect(text).not.toContain('made_up')
})
