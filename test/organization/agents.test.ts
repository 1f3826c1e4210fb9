/**
 * Agents of members as administrators reach them from the organization: contract, "The organization's
 * authority" (`/admin/...`), "Organization membership, on the member's authorization server".
 */
import { createServer, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, it, onTestFinished } from 'vitest'
import { exchange } from '../support/authority.ts'
import { startMembershipStand } from '../support/membership.ts'
import { startMemberStand } from '../support/organization-members.ts'
import { startedOnce } from '../support/started.ts'
import { testAgent } from '../support/test-agent.ts'

const both = startedOnce(async () => {
  const stand = await startMembershipStand()
  const { status, text } = await stand.joined()
  if (status !== 200) throw new Error(text)
  return stand
})
const admin = (target: string, json?: object) =>
  both.organization.admin({
    target: `/admin/members/alice${target}`,
    ...(json && { method: 'POST', json }),
  })
const activity = async () => {
  const { body } = await both.organization.admin({ target: '/admin/activity?limit=1000' })
  return body.entries as { kind: string; admin?: string; owner?: string; data: Record<string, unknown> }[]
}

describe('At the organization an administrator', () => {
  it('sees and decides what waits at her server, and it is on record before it is done', async () => {
    const agent = testAgent(both.authority)
    const { body } = await agent.ask('portfolio_read')
    const waiting = await admin('/pending?limit=1')
    expect([waiting.status, waiting.body]).toMatchObject([200, [{ handle: agent.handle }]])
    const [{ family }] = waiting.body as [{ family: string }]
    const decided = await admin(`/pending/${family}/decision`, { decision: 'approved' })
    expect([decided.status, decided.body]).toMatchObject([
      200,
      { family, decision: 'approved', actor: { admin: 'ines' } },
    ])
    expect((await agent.present(body.ticket as string)).status).toBe(200)
    const second = await admin(`/pending/${family}/decision`, { decision: 'denied' })
    expect([second.status, second.body.decision]).toEqual([409, 'approved'])
    const entries = (await activity()).slice(-4)
    expect(entries.map(({ kind, data }) => [kind, data['act'] ?? data['status']])).toEqual([
      ['member_acted_on', 'approved'],
      ['member_answered', 200],
      ['member_acted_on', 'denied'],
      ['member_answered', 409],
    ])
    expect(entries[0]).toMatchObject({ admin: 'ines', owner: 'alice', data: { family } })
    expect(new Set(entries.map(({ data }) => data['jti'])).size).toBe(2)
  })

  it('ends and gives back the reach of agents and operators, and reads the ledger of it', async () => {
    const [one] = (await admin('/connections')).body as [{ handle: string; status: string }]
    const { handle } = one
    expect((await admin('/connections/revoke', { handle })).body).toEqual({ handle, revoked: true })
    expect((await admin('/connections')).body).toMatchObject([{ handle, status: 'revoked' }])
    expect((await admin('/connections/restore', { handle })).body).toEqual({ handle, revoked: false })
    expect((await admin('/operators')).body).toEqual([])
    const nobody = await admin('/operators/block', { origin: 'https://nobody.example' })
    expect([nobody.status, nobody.body.error]).toEqual([404, 'not_found'])
    const { status, body } = await admin('/ledger')
    expect(status).toBe(200)
    expect(body.entries.map(({ kind }: { kind: string }) => kind)).toContain('org_acted')
  })

  it('does nothing twice with one signature', async () => {
    const [{ handle }] = (await admin('/connections')).body as [{ handle: string }]
    const target = '/admin/members/alice/connections/revoke'
    const prepared = both.organization.prepare({ method: 'POST', target, json: { handle } })
    const replies = await Promise.all(Array.from({ length: 8 }, () => exchange(prepared)))
    expect(replies.map(({ status }) => status).sort()).toEqual([200, ...Array<number>(7).fill(401)])
  })

  it('of nobody sees nothing: 404', async () => {
    const target = '/admin/members/nobody/pending'
    expect((await both.organization.admin({ target })).status).toBe(404)
  })
})

/** Whatever a server of a member may answer, at an address that its metadata names. */
interface Answering {
  url: string
  server: Server
  answer: { status: number; body: string; link?: string } | 'hang up'
  asked: { url: string; authorization: string | undefined }[]
}

async function startAnswering(): Promise<Answering> {
  const answering: Answering = {
    url: '',
    server: createServer(),
    answer: { status: 200, body: '[]' },
    asked: [],
  }
  answering.server.on('request', (request: IncomingMessage, response) => {
    answering.asked.push({ url: request.url!, authorization: request.headers.authorization })
    const { answer } = answering
    if (answer === 'hang up') return void request.socket.destroy()
    const { status, body, link } = answer
    response.writeHead(status, { 'content-type': 'application/json', ...(link && { link }) }).end(body)
  })
  await new Promise<void>(resolve => answering.server.listen(0, '127.0.0.1', resolve))
  answering.url = `http://127.0.0.1:${(answering.server.address() as AddressInfo).port}`
  return answering
}

describe('A server of a member', () => {
  const started = async () => {
    const stand = await startMemberStand()
    const answering = await startAnswering()
    onTestFinished(async () => {
      answering.server.close()
      await stand.close()
    })
    stand.first.metadata = { org_admin_endpoint: `${answering.url}/org/admin` }
    await stand.joined('bea')
    const list = () => stand.organization.admin({ target: '/admin/members/bea/pending' })
    return { stand, answering, list }
  }

  it('that is away or answers nothing usable is an outage and never a denial', async () => {
    const { answering, list, stand } = await started()
    const cases: [Answering['answer'], number][] = [
      ['hang up', 502],
      [{ status: 500, body: '{}' }, 503],
      [{ status: 503, body: '{"error":"temporarily_unavailable"}' }, 503],
      [{ status: 401, body: '{"error":"invalid_token"}' }, 502],
      [{ status: 429, body: '{"error":"request_denied"}' }, 502],
      [{ status: 302, body: '' }, 502],
      [{ status: 200, body: 'no json' }, 502],
      [{ status: 200, body: '{"not":"a list"}' }, 502],
      [{ status: 403, body: '[]' }, 502],
      [{ status: 200, body: `["${'x'.repeat(5 * 1024 * 1024)}"]` }, 502],
    ]
    for (const [answer, status] of cases) {
      answering.answer = answer
      const reply = await list()
      expect([
        answer === 'hang up' ? answer : answer.body.slice(0, 40),
        reply.status,
        reply.body.error,
      ]).toEqual([
        answer === 'hang up' ? answer : answer.body.slice(0, 40),
        status,
        'temporarily_unavailable',
      ])
    }
    answering.answer = { status: 403, body: '{"error":"request_denied","reason":"not_permitted"}' }
    const denied = await list()
    expect([denied.status, denied.body.reason]).toEqual([403, 'not_permitted'])
    answering.server.close()
    answering.server.closeAllConnections()
    expect((await list()).status).toBe(503)
    stand.first.metadata = {}
  })

  it('is told of a next page by its own link alone, and each request bears a token of its own', async () => {
    const { answering, list } = await started()
    answering.answer = {
      status: 200,
      body: '[{"family":"fam_1"}]',
      link: '<https://elsewhere.example/>; rel="next"',
    }
    const replies = [await list(), await list()]
    for (const { headers } of replies)
      expect(headers.get('link')).toBe('</admin/members/bea/pending?after=fam_1&limit=100>; rel="next"')
    expect(answering.asked.map(({ url }) => url)).toEqual(Array(2).fill('/org/admin/bea/pending?limit=100'))
    expect(new Set(answering.asked.map(({ authorization }) => authorization)).size).toBe(2)
  })

  it('that names no address for administrators is asked nothing', async () => {
    const { answering, list, stand } = await started()
    stand.first.metadata = { issuer: 'https://elsewhere.example', org_admin_endpoint: answering.url }
    const reply = await list()
    expect([reply.status, answering.asked]).toEqual([503, []])
  })
})
