/**
 * Whatever is sent to whichever endpoint of an organization, with a good credential of each kind, the answer
 * is one of the contract's: a status below 500, a word of the table and a sentence. Contract, "The
 * organization's authority", "Endpoints" and "Errors".
 */
import fc from 'fast-check'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { ENDPOINTS, type OrganizationListener } from '../../src/organization/endpoints.ts'
import { publicJwk, type PrivateKey } from '../../src/wire/signatures/keys.ts'
import { ORGANIZATION_PATH } from '../../src/wire/names.ts'
import {
  accepting,
  agent,
  body as emergency,
  clause,
  desk,
  OWN,
  RESOURCE,
} from '../organization/emergencies.ts'
import { exchange, prepare, type OwnerCall, type PreparedCall } from '../support/authority.ts'
import {
  attempts,
  bytesOf,
  expectCoded,
  expectCodedElsewhere,
  HOSTILE_RUNS,
  knowing,
  targetOf,
  type Attempt,
  type Known,
} from '../support/hostile-requests.ts'
import { charterOf, ORG_ISSUER } from '../support/organization.ts'
import { startMemberStand, type MemberStand } from '../support/organization-members.ts'
import { AUDIENCE, startRealm, type TestRealm } from '../support/realm.ts'

type Operation = (typeof ENDPOINTS)[OrganizationListener][number] & { listener: OrganizationListener }

const JOIN_ID = 'join-of-amy-0000000'
const CHARTER = { break_glass: clause({ max_expires_in: 3_600 }) }

let realm: TestRealm
let stand: MemberStand
let bearer: string
let token = 'none.yet.'
let known: Known

beforeAll(async () => {
  realm = await startRealm({ seconds: 3_600 })
  await new Promise<void>(resolve => desk.listen(0, '127.0.0.1', resolve))
  const { port } = desk.address() as { port: number }
  stand = await startMemberStand({
    administrators: [{ name: 'otto', subjects: ['sub-o'] }],
    environment: {
      UMA_ORG_ADMIN_AUTH: 'device-key,oidc',
      UMA_ORG_OIDC_ISSUER: realm.issuer,
      UMA_ORG_OIDC_AUDIENCE: AUDIENCE,
    },
    file: {
      charter: charterOf(CHARTER),
      enforcement_points: [
        { id: 'own', resources: [RESOURCE], credential: OWN },
        {
          id: 'keys',
          resources: ['https://keys.example/mcp/amy'],
          jwks_uri: `http://127.0.0.1:${port}/jwks`,
        },
      ],
    },
  })
  stand.first.decide = accepting(stand.first)
  stand.first.metadata['org_admin_endpoint'] = `${stand.first.uri}/org/admin`
  bearer = (await realm.login('sub-o')).access_token
})
afterAll(async () => {
  await stand?.close()
  desk.close()
  await realm?.close()
})

const admin = async (method: 'GET' | 'POST' | 'PUT', target: string, json?: object) =>
  (await stand.organization.admin({ method, target, ...(json && { json }) })).body

/** A grant of an emergency, which nobody has spent. */
async function granted(voucher: string): Promise<string> {
  const call = { method: 'POST', target: '/break-glass', json: emergency({ voucher }) } as const
  const { publicUrl } = stand.organization
  return (await exchange(prepare(publicUrl, ORG_ISSUER, { key: agent }, call))).body.access_token as string
}

const isMember = async () => (await stand.asMember(token, { target: '/member/envelope' })).status === 200

// Hostile requests that are allowed end memberships, spend codes and publish charters.
beforeEach(async () => {
  await stand.publish(CHARTER)
  if (!(await isMember())) token = await stand.joined('amy')
  expect(await isMember()).toBe(true)
  const window = { owner: 'amy', reason: 'a drill', window_s: 600 }
  const invitation = await admin('POST', '/admin/invites', { owner: 'amy', as_uri: stand.first.uri })
  const vouchers = [
    await admin('POST', '/admin/break-glass', window),
    await admin('POST', '/admin/break-glass', window),
  ]
  const { version } = await admin('GET', '/admin/charter')
  known = {
    owner: 'amy',
    as_uri: stand.first.uri,
    audience: stand.first.uri,
    join_id: JOIN_ID,
    code: (await admin('POST', '/admin/join-code/rotate')).code,
    code_id: invitation.code_id,
    invitation: invitation.code,
    charter_version: version,
    agreed_version: version,
    base_version: version,
    'if-match': `"${version}"`,
    version,
    id: 'staff',
    role: 'staff',
    resource: RESOURCE,
    resource_id: 'acme/vault',
    scopes: ['read'],
    agent_jwk: publicJwk(agent),
    voucher: vouchers[0].voucher,
    token: await granted(vouchers[1].voucher as string),
  }
})

/** What is declined is an invitation of hers, and no code that everybody may have. */
const knownTo = ({ path }: Operation): Known =>
  path === ORGANIZATION_PATH.decline ? { ...known, code: known['invitation'] } : known

/** The request with a good credential: of the endpoint's second kind if `other`, and it has one. */
function proven(operation: Operation, attempt: Attempt, other: boolean): PreparedCall {
  const { body } = attempt
  const { organization, first } = stand
  const call = {
    method: operation.method.toUpperCase() as 'GET',
    target: targetOf(operation, attempt),
    headers: { ...attempt.headers, ...(body === undefined ? {} : { 'content-type': body.type }) },
    ...(body === undefined ? {} : { raw: body.bytes }),
  }
  const { names = [] } = operation.credential ?? {}
  const bearing = (credential: string): OwnerCall => ({
    ...call,
    headers: { ...call.headers, authorization: `Bearer ${credential}` },
  })
  const signed = (key: PrivateKey, sent: OwnerCall = call) =>
    prepare(organization.publicUrl, ORG_ISSUER, { key }, sent)
  const unsigned = (base: string, sent: OwnerCall) =>
    prepare(base, ORG_ISSUER, { key: agent }, { ...sent, sign: false })
  if (names.includes('admin'))
    return other ? unsigned(organization.adminUrl, bearing(bearer)) : organization.prepare(call)
  if (names.includes('enforcement'))
    return other ? signed(agent) : unsigned(organization.publicUrl, bearing(OWN))
  if (names.includes('agent_key')) return signed(agent)
  if (names.includes('membership')) {
    const components = ['@method', '@authority', '@path', 'authorization']
    if (call.target.includes('?')) components.push('@query')
    if (body !== undefined) components.push('content-digest')
    return signed(first.key, { ...bearing(token), sign: { components } })
  }
  return operation.listener === 'admin' ? unsigned(organization.adminUrl, call) : signed(first.key)
}

async function send(operation: Operation, attempt: Attempt, other: boolean): Promise<Response> {
  const { url, method, headers } = proven(operation, attempt, other)
  return fetch(url, { method, headers, ...bytesOf(attempt.body) })
}

const OPERATIONS = (['public', 'admin'] as const).flatMap(listener =>
  ENDPOINTS[listener].map(one => [listener, one.method, one.path, { ...one, listener }] as const),
)

// Wrong codes are bounded, so what names good ones goes first.
describe.each([true, false])(
  'an organization answers whatever it is sent, if it knows a part of it: %s',
  isKnown => {
    test.each(OPERATIONS)('at its %s listener, %s %s', async (_listener, _method, _path, operation) => {
      const statuses = new Set<number>()
      await fc.assert(
        fc.asyncProperty(attempts(operation), fc.boolean(), async (attempt, other) => {
          const sent = isKnown ? knowing(operation, attempt, knownTo(operation)) : attempt
          const response = await send(operation, sent, other)
          statuses.add(response.status)
          await expectCoded(response)
        }),
        { numRuns: Math.ceil(HOSTILE_RUNS / 2) },
      )
      // The credential is good, unless it is a key that the body should have named.
      if (operation.credential?.names.includes('agent_key') !== true) expect([...statuses]).not.toContain(401)
    })
  },
)

test.each(['public', 'admin'] as const)('its %s listener has nothing at any other path', async listener =>
  expectCodedElsewhere(stand.organization[`${listener}Url`]),
)
