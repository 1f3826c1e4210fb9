/**
 * Owns a hostile or compromised organization, for tests: it proves itself with its own keys, and gives any
 * answer that a test wants.
 */
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'
import { memberView, type MemberView } from '../../src/rules/organization/member-view.ts'
import { parseCharter } from '../../src/wire/organization/charter.ts'
import { asOwner } from '../../src/wire/identifiers.ts'
import {
  generatePrivateJwk,
  importPrivateJwk,
  publicJwk,
  type PrivateKey,
} from '../../src/wire/signatures/keys.ts'
import type { Json } from '../../src/wire/json.ts'
import { startTestAuthority, type TestAuthority, type TestAuthorityOptions } from './authority.ts'
import { CLAIMING } from './membership.ts'
import { charterOf } from './organization.ts'

export interface HostileOrganization {
  issuer: string
  key: PrivateKey
  /** What it was asked, by path. */
  asked: string[]
  /** What it answers by path in place of what an honest one would say. */
  answers: Record<string, object>
  /** By path, what becomes of the next requests before it answers again: cut, or refused with this status. */
  next: Record<string, ('cut' | number)[]>
  /** By path, what it waits for before it answers. */
  holds: Record<string, () => Promise<unknown>>
  server: Server
}

/** Starts one, which ends with the test. */
export async function startHostile(): Promise<HostileOrganization> {
  const key = importPrivateJwk(generatePrivateJwk())
  const hostile: HostileOrganization = {
    issuer: '',
    key,
    asked: [],
    answers: {},
    next: {},
    holds: {},
    server: createServer(),
  }
  hostile.server.on('request', (request, response) => {
    const path = new URL(request.url!, hostile.issuer).pathname
    hostile.asked.push(path)
    const instead = hostile.next[path]?.shift()
    if (instead === 'cut') return void request.socket.destroy()
    void Promise.resolve(hostile.holds[path]?.()).then(() => {
      response.statusCode = instead ?? 200
      response.setHeader('content-type', 'application/json')
      response.end(JSON.stringify({ ...honest(hostile, path), ...hostile.answers[path] }))
    })
  })
  await new Promise<void>(resolve => hostile.server.listen(0, '127.0.0.1', resolve))
  hostile.issuer = `http://127.0.0.1:${(hostile.server.address() as AddressInfo).port}`
  onTestFinished(() => {
    hostile.server.closeAllConnections()
    hostile.server.close()
  })
  return hostile
}

/** Where it says that its endpoints are. */
export function discoveryOf(issuer: string): Record<string, unknown> {
  return {
    issuer,
    organization: { id: 'acme', name: 'Acme' },
    jwks_uri: `${issuer}/jwks`,
    preview_endpoint: `${issuer}/preview`,
    enrolment_endpoint: `${issuer}/join`,
    envelope_endpoint: `${issuer}/envelope`,
    leave_endpoint: `${issuer}/leave`,
    decision_endpoint: `${issuer}/decision`,
    clearance_endpoint: `${issuer}/clearance`,
    compliance_endpoint: `${issuer}/compliance`,
  }
}

function honest({ issuer, key }: HostileOrganization, path: string): object {
  switch (path) {
    case '/.well-known/ext-organization':
      return discoveryOf(issuer)
    case '/jwks':
      return { keys: [publicJwk(key)] }
    case '/preview':
    case '/envelope':
      return viewOf(issuer)
    case '/join':
      return { ...viewOf(issuer), membership_token: 'a.b.c' }
    // Whatever is asked.
    case '/decision':
      return { effect: 'allow', governed: true, because: [], charter_version: 1, clearance: null }
    default:
      return { left: true, recorded: true }
  }
}

/** The view of a member under the usual charter with these changes, and what of the view itself differs. */
export function viewOf(issuer: string, changes: object = {}, member: Partial<MemberView> = {}): MemberView {
  const charter = parseCharter(JSON.parse(JSON.stringify(charterOf({ ...CLAIMING, ...changes }))) as Json)
  const organization = { id: 'acme', name: 'Acme' }
  const version = { charter_version: 1, published_at: '2026-11-21T09:00:00.000Z' }
  const view = memberView({
    organization,
    issuer,
    charter,
    ...version,
    owner: asOwner('alice'),
    role: 'staff',
    view: 1,
  })
  return { ...view, ...member }
}

/** An authority that lists it, which ends with the test. */
export async function authorityUnder(
  { issuer }: HostileOrganization,
  options: TestAuthorityOptions = {},
): Promise<TestAuthority> {
  const environment = { UMA_DEV_LOOPBACK: 'true', UMA_AS_ORGANIZATIONS: issuer }
  const authority = await startTestAuthority({ ...options, environment })
  onTestFinished(() => authority.close())
  return authority
}
