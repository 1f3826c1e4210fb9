/**
 * An organization that is hostile or stolen: contract, "What the service does" (nothing above the owner can
 * widen).
 */
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, it, onTestFinished } from 'vitest'
import { memberView, type MemberView } from '../../src/rules/member-view.ts'
import { parseCharter } from '../../src/wire/charter.ts'
import { startTestAuthority, type TestAuthority } from '../support/authority.ts'
import { charterOf } from '../support/organization.ts'
import { CLAIMING } from '../support/membership.ts'
import { until } from '../support/until.ts'

/** What it was asked, by path. */
interface Hostile {
  issuer: string
  asked: string[]
  server: Server
  /** Members of what it answers to a preview and to a join, beside what an honest one would say. */
  previews: object
  joins: object
}

async function startHostile(): Promise<Hostile> {
  const hostile: Hostile = { issuer: '', asked: [], server: createServer(), previews: {}, joins: {} }
  hostile.server.on('request', (request, response) => {
    hostile.asked.push(request.url!)
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify(answerOf(hostile, request.url!)))
  })
  await new Promise<void>(resolve => hostile.server.listen(0, '127.0.0.1', resolve))
  hostile.issuer = `http://127.0.0.1:${(hostile.server.address() as AddressInfo).port}`
  onTestFinished(() => void hostile.server.close())
  return hostile
}

function viewOf(issuer: string, changes: object = {}): MemberView {
  const charter = parseCharter(JSON.parse(JSON.stringify(charterOf({ ...CLAIMING, ...changes }))))
  const organization = { id: 'acme', name: 'Acme' }
  const version = { charter_version: 1, published_at: '2026-11-21T09:00:00.000Z' }
  return memberView({ organization, issuer, charter, ...version, owner: 'alice', role: 'staff', view: 1 })
}

function answerOf({ issuer, previews, joins }: Hostile, path: string): unknown {
  switch (path) {
    case '/.well-known/ext-organization':
      return {
        issuer,
        organization: { id: 'acme', name: 'Acme' },
        jwks_uri: `${issuer}/jwks`,
        preview_endpoint: `${issuer}/preview`,
        enrolment_endpoint: `${issuer}/join`,
        envelope_endpoint: `${issuer}/envelope`,
        leave_endpoint: `${issuer}/leave`,
      }
    case '/preview':
      return { ...viewOf(issuer), ...previews }
    case '/join':
      return { ...viewOf(issuer), membership_token: 'a.b.c', ...joins }
    default:
      return { left: true }
  }
}

async function standOf(hostile: Hostile): Promise<TestAuthority> {
  const environment = { UMA_DEV_LOOPBACK: 'true', UMA_AS_ORGANIZATIONS: hostile.issuer }
  const authority = await startTestAuthority({ environment })
  onTestFinished(() => authority.close())
  return authority
}

describe('An organization that answers a join with other terms than were agreed', () => {
  it('makes nobody a member, and is told that she left', async () => {
    const hostile = await startHostile()
    const authority = await standOf(hostile)
    const own = (method: 'GET' | 'POST', below: string, json?: object) =>
      authority.call(authority.alice, {
        method,
        target: `/owner/organization${below}`,
        ...(json && { json }),
      })
    const { body } = await own('POST', '/preview', { code: 'any' })
    hostile.joins = viewOf(hostile.issuer, { claims: ['alice/*'] })
    const { binds_s256, charter_version } = body
    const joined = await own('POST', '', { code: 'any', agreed: true, binds_s256, charter_version })
    expect([joined.status, joined.body.reason]).toEqual([409, 'charter_moved'])
    expect((await own('GET', '')).body.enrolled).toBe(false)
    await until(() => hostile.asked.includes('/leave'))
  })
})

describe('What an organization says that no charter could', () => {
  it.each<[string, object]>([
    ['another digest than that of what it says', { binds_s256: 's256:of-something-milder' }],
    ['a ceiling of another digest', { max_expires_in: 9 }],
    ['another organization’s name', { issuer: 'https://elsewhere.example' }],
    ['a claim of everything', { claims: ['*/*'] }],
    ['control characters', { summary: ['\u001b[2J'] }],
  ])('is no answer: %s', async (_, previews) => {
    const hostile = await startHostile()
    hostile.previews = previews
    const authority = await standOf(hostile)
    const target = '/owner/organization/preview'
    const reply = await authority.call(authority.alice, { method: 'POST', target, json: { code: 'any' } })
    expect([reply.status, reply.body.error]).toEqual([503, 'temporarily_unavailable'])
  })
})

describe('An authority for which no organization is listed', () => {
  it('asks nobody, and says that there is none', async () => {
    const authority = await startTestAuthority()
    onTestFinished(() => authority.close())
    const target = '/owner/organization'
    expect((await authority.call(authority.alice, { target })).body).toEqual({
      enrolled: false,
      available: [],
      invitation: null,
      unreachable: [],
    })
    const json = { issuer: 'https://org.example', code: 'any' }
    const asked = await authority.call(authority.alice, { method: 'POST', target: `${target}/preview`, json })
    expect([asked.status, asked.body.error]).toEqual([403, 'request_denied'])
  })
})
