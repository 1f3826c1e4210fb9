/**
 * What a member's authority reports to the real organization, whose every request passes a relay that keeps
 * the bytes: contract, "The organization's authority" (`/member/compliance`), "Events" (compliance report).
 */
import { createServer, request as httpRequest, type Server } from 'node:http'
import { afterAll, describe, expect, it } from 'vitest'
import { freePorts } from '../../src/dev/stack/ports.ts'
import { startMembershipStand, type MembershipStand } from '../support/membership.ts'
import { startedForEach } from '../support/started.ts'
import { until } from '../support/until.ts'
import { dueAtOnce } from '../support/due.ts'

/** The relay in front of the organization. */
interface Relay {
  server: Server
  /** The bodies of reports, those that were not let through among them. */
  reports: string[]
  /** Whether reports are let through; otherwise they are answered 503. */
  up: boolean
}

function relayTo(port: number): Relay {
  const relay: Relay = { server: createServer(), reports: [], up: true }
  relay.server.on('request', (incoming, response) => {
    const chunks: Buffer[] = []
    incoming.on('data', (chunk: Buffer) => chunks.push(chunk))
    incoming.on('end', () => {
      const { url: path, method, headers } = incoming
      const body = Buffer.concat(chunks)
      if (path === '/member/compliance') relay.reports.push(body.toString())
      if (path === '/member/compliance' && !relay.up) return void response.writeHead(503).end()
      const onwards = httpRequest({ host: '127.0.0.1', port, path, method, headers }, answer => {
        response.writeHead(answer.statusCode!, answer.headers)
        answer.pipe(response)
      })
      onwards.on('error', () => response.destroy())
      onwards.end(body)
    })
  })
  return relay
}

const servers: Server[] = []
afterAll(() => {
  for (const server of servers) server.close()
})

const stand = startedForEach(async (): Promise<MembershipStand & { relay: Relay }> => {
  const [port] = await freePorts(1)
  const started = await startMembershipStand({ listen: `127.0.0.1:${port}` })
  const relay = relayTo(port)
  servers.push(relay.server)
  await new Promise<void>(resolve =>
    relay.server.listen(Number(new URL(started.issuer).port), '127.0.0.1', resolve),
  )
  return { ...started, relay }
})

interface Reported {
  charter_version: number
  agreed_version: number
  resources_governed: number
  tiers_governed: number
  clamped_fields: string[]
  within: boolean
}
/** What the organization shows of her. */
const shown = async () => {
  const { body } = await stand.organization.admin({ target: '/admin/members' })
  return (body as { owner: string; compliance: Reported | null }[]).find(({ owner }) => owner === 'alice')
    ?.compliance
}
const reported = async () => {
  await until(async () => (await shown()) != null)
  return (await shown())!
}
const edit = (json: object) =>
  stand.authority.call(stand.alice, { method: 'PUT', target: '/owner/policies/reading', json })
const dueIn = async () => {
  const { rows } = await stand.authority.database.pool.query<{ seconds: number }>(
    `SELECT extract(epoch FROM at - now())::float8 AS seconds FROM due
      WHERE kind = 'compliance' AND owner = 'alice'`,
  )
  return rows[0]?.seconds
}
const nextNow = () => dueAtOnce(stand.authority.database, 'compliance')

describe("A member's authority", () => {
  it('reports compliance after a join, and after a policy write that was cut', async () => {
    await edit({ terms: { expires_in: 900, prohibited: ['passing it on'] } })
    await stand.joined()
    const first = await reported()
    expect(first).toMatchObject({
      agreed_version: first.charter_version,
      resources_governed: 3,
      tiers_governed: 2,
      within: true,
    })
    expect(first.clamped_fields).not.toContain('scope')
    const saved = await edit({ terms: { scope: ['read', 'export'], expires_in: 3_000 } })
    expect([saved.status, saved.body.clamped.length > 0]).toEqual([200, true])
    await until(async () => (await reported()).clamped_fields.includes('scope'))
    expect((await reported()).within).toBe(true)
  })

  it('reports a later version of the charter, and which version she agreed to', async () => {
    await stand.joined()
    const { charter_version } = await reported()
    await stand.publish({ claims: ['alice/*'] })
    await dueAtOnce(stand.authority.database, 'view')
    await until(async () => (await reported()).charter_version > charter_version)
    expect(await reported()).toMatchObject({ agreed_version: charter_version, resources_governed: 3 })
    const { body } = await stand.own('GET')
    const { binds_s256, charter_version: later } = body as { binds_s256: string; charter_version: number }
    await stand.own('POST', '', { agreed: true, charter_version: later, binds_s256 })
    await until(async () => (await reported()).agreed_version === later)
    expect((await reported()).resources_governed).toBeGreaterThan(3)
  })

  it('never sends her terms, the name of a tier or a resource that is hers', async () => {
    const words = ['Zebra', 'crossing', 'gaggle', 'my-own-promise']
    await edit({
      name: words[0],
      terms: { purpose: words[1], expires_in: 3_000, prohibited: [words[3]] },
      clearance: { [words[2]!]: ['high'] },
    })
    await stand.joined()
    await reported()
    const count = stand.relay.reports.length
    await edit({ name: words[0], terms: { purpose: words[1], scope: ['read', 'export'] } })
    await until(() => stand.relay.reports.length > count)
    const { body } = await stand.authority.call(stand.alice, { target: '/owner/policies' })
    const tiers = body.tiers as {
      id: string
      name: string
      resources: string[]
      terms: { purpose: string }
    }[]
    const hers = tiers.flatMap(({ id, name, resources, terms }) => [id, name, terms.purpose, ...resources])
    expect(hers).toEqual(expect.arrayContaining(['Zebra', 'crossing', 'alice/statements']))
    for (const sent of stand.relay.reports)
      for (const word of [...words, ...hers]) expect(sent).not.toContain(word)
  })

  it('reports to an organization that was down later, and of what waited only the latest', async () => {
    stand.relay.up = false
    await stand.joined()
    await until(() => stand.relay.reports.length > 0)
    await until(async () => ((await dueIn()) ?? 0) > 35)
    expect(await dueIn()).toBeLessThanOrEqual(60)
    expect(await shown()).toBeNull()
    const saved = await edit({ terms: { scope: ['read', 'export'] } })
    expect(saved.status).toBe(200)
    await until(async () => ((await dueIn()) ?? 0) > 35)
    stand.relay.up = true
    const before = stand.relay.reports.length
    await nextNow()
    expect((await reported()).clamped_fields).toContain('scope')
    expect(stand.relay.reports.length - before).toBe(1)
  })

  it('reports once a day, and no more once she has left', async () => {
    await stand.joined()
    await reported()
    await until(async () => ((await dueIn()) ?? 0) > 3_600)
    expect(await dueIn()).toBeGreaterThan(64_000)
    expect(await dueIn()).toBeLessThanOrEqual(86_400)
    const before = stand.relay.reports.length
    await nextNow()
    await until(async () => ((await dueIn()) ?? 0) > 3_600)
    expect(stand.relay.reports.length).toBe(before + 1)
    await stand.own('DELETE')
    await nextNow()
    await until(async () => (await dueIn()) === undefined)
    expect(stand.relay.reports.length).toBe(before + 1)
  })
})
