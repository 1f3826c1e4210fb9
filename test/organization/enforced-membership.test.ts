/**
 * What an enforcement point is told of members: contract, "The organization's authority"
 * (`/membership/{owner}`), "Authentication".
 */
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  generatePrivateJwk,
  importPrivateJwk,
  publicJwk,
  type PrivateKey,
} from '../../src/wire/signatures/keys.ts'
import { exchange, prepare, type OwnerCall } from '../support/authority.ts'
import { row } from '../support/contract-row.ts'
import { charterOf, ORG_ISSUER } from '../support/organization.ts'
import { startMemberStand, type MemberStand } from '../support/organization-members.ts'

const OURS = charterOf({
  claims: ['amy/work-*', 'ben/work-*', 'dept/*'],
  roles: {
    staff: { name: 'Staff', grants: ['amy/work-mail', 'ben/work-mail'], delegation: 'any-agent' },
  },
  envelope: {
    max_expires_in: 3600,
    allowed_scopes: ['read', 'send'],
    always_ask: ['amy/work-out', 'ben/work-out'],
  },
  break_glass: {
    enabled: true,
    resources: ['amy/work-vault', 'ben/work-vault'],
    max_expires_in: 300,
    invokers: ['https://desk.example'],
  },
})
const CREDENTIAL = randomBytes(24).toString('base64url')
const resourceOf = (owner: string) => `https://tools.example/mcp/${owner}`

/** Publishes keys, as enforcement points do. */
async function publishing(keys: () => PrivateKey[]): Promise<{ uri: string; server: Server }> {
  const server = createServer((_request, response) => {
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify({ keys: keys().map(key => publicJwk(key)) }))
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return { uri: `http://127.0.0.1:${(server.address() as AddressInfo).port}/jwks`, server }
}

const newKey = () => importPrivateJwk(generatePrivateJwk())
const key = newKey()
const others = newKey()
let stand: MemberStand
let servers: Server[]
beforeAll(async () => {
  const own = await publishing(() => [key])
  // Publishing another's key takes nothing from it.
  const envious = await publishing(() => [others, key])
  servers = [own.server, envious.server]
  stand = await startMemberStand({
    file: {
      charter: OURS,
      enforcement_points: [
        { id: 'envious', resources: [resourceOf('zoe')], jwks_uri: envious.uri },
        { id: 'keyed', resources: ['amy', 'cleo'].map(resourceOf), jwks_uri: own.uri },
        {
          id: 'told',
          resources: [{ resource: 'https://tools.example/work', owner: 'ben' }],
          credential: CREDENTIAL,
        },
        { id: 'gone', resources: [resourceOf('eve')], jwks_uri: 'http://127.0.0.1:1/jwks' },
      ],
    },
  })
  await stand.joined('amy')
  await stand.joined('ben')
})
afterAll(async () => {
  await stand.close()
  for (const server of servers) server.close()
})

const signed = (owner: string, by = key, call: Partial<OwnerCall> = {}) =>
  exchange(
    prepare(
      stand.organization.publicUrl,
      ORG_ISSUER,
      { key: by },
      { target: `/membership/${owner}`, ...call },
    ),
  )
const told = (owner: string, credential = CREDENTIAL) =>
  stand.organization.request(`/membership/${owner}`, { headers: { authorization: `Bearer ${credential}` } })

describe("The organization's authority", () => {
  row('org-membership', async () => {
    const { status, body } = await signed('amy')
    expect(status).toBe(200)
    expect(body).toEqual({
      member: true,
      since: expect.stringMatching(/^\d{4}-/),
      as_uri: stand.first.uri,
      view: 1,
      charter_version: 1,
      claims: ['amy/work-*', 'ben/work-*', 'dept/*'],
      grants: ['amy/work-mail', 'ben/work-mail'],
      delegation: 'any-agent',
      max_expires_in: 3600,
      allowed_scopes: ['read', 'send'],
      always_ask: ['amy/work-out', 'ben/work-out'],
      break_glass: { enabled: true, resources: ['amy/work-vault', 'ben/work-vault'], max_expires_in: 300 },
    })
  })
})

describe('An enforcement point', () => {
  it('is told of an owner who is no member what is claimed, and nothing else', async () => {
    const { status, body } = await signed('cleo')
    // Among the claims may be a namespace of hers, of which the organization knows nothing.
    expect([status, body]).toEqual([200, { member: false, claims: ['amy/work-*', 'ben/work-*', 'dept/*'] }])
  })

  it('is told of the owners of its own resources alone, and of all others as of nobody', async () => {
    const another = await signed('ben')
    const nobody = await signed('nobody')
    expect([another.status, another.body]).toEqual([404, nobody.body])
    expect((await told('amy')).status).toBe(404)
    expect((await told('ben')).body).toMatchObject({ member: true, view: 1 })
  })

  row('auth-enforcement-at-organization', async () => {
    for (const refused of [
      await stand.organization.request('/membership/ben'),
      await told('ben', `${CREDENTIAL}x`),
      await signed('amy', newKey()),
      await signed('amy', key, { sign: { issuer: 'https://elsewhere.example' } }),
    ])
      expect([refused.status === 401 || refused.status === 503, refused.body.member]).toEqual([
        true,
        undefined,
      ])
    expect((await told('ben', 'wrong')).status).toBe(401)
  })

  it('is not kept out by another that cannot be reached, or publishes its key as well', async () => {
    expect((await signed('amy')).status).toBe(200)
    expect((await signed('amy', others)).status).toBe(404)
    // Whether the one that cannot be reached knows this key nobody can say.
    const unknown = await signed('amy', newKey())
    expect([unknown.status, unknown.body.error]).toEqual([503, 'temporarily_unavailable'])
    expect(unknown.text).not.toContain('127.0.0.1')
  })

  it('is told of a later charter what narrows, and of what it newly claims nothing before she agreed', async () => {
    const later = {
      claims: ['amy/work-*', 'amy/home-*', 'ben/work-mail'],
      roles: { staff: { name: 'Staff', grants: ['ben/work-mail'], delegation: 'none' } },
      envelope: { max_expires_in: 60 },
      break_glass: { enabled: true, resources: ['amy/work-*'], max_expires_in: 900 },
    }
    await stand.publish(later)
    const { body } = await signed('amy')
    expect(body).toMatchObject({
      view: 2,
      claims: ['amy/work-*', 'ben/work-mail'],
      grants: ['ben/work-mail'],
      delegation: 'none',
      max_expires_in: 60,
      break_glass: { resources: ['amy/work-vault'], max_expires_in: 300 },
    })
  })
})
