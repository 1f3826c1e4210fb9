/**
 * Owns an organization with an emergency clause, for tests, and an authority of its members that says yes to
 * everything unless it is told otherwise.
 */
import { randomBytes } from 'node:crypto'
import { createServer } from 'node:http'
import { afterAll, beforeAll, beforeEach, expect } from 'vitest'
import type { Logger } from '../../src/http/telemetry/log.ts'
import { ORGANIZATION_DATABASE, type Db } from '../../src/storage/organization/database.ts'
import { asOwner } from '../../src/wire/identifiers.ts'
import type { JsonObject } from '../../src/wire/json.ts'
import { parseJws, signJws } from '../../src/wire/signatures/jws.ts'
import {
  generatePrivateJwk,
  importPrivateJwk,
  publicJwk,
  type PrivateKey,
} from '../../src/wire/signatures/keys.ts'
import { TYP } from '../../src/wire/names.ts'
import type { BreakGlassGrant } from '../../src/wire/organization/notice.ts'
import { exchange, prepare, type OwnerCall, type PreparedCall } from '../support/authority.ts'
import { charterOf, ORG_ISSUER } from '../support/organization.ts'
import { startMemberStand, type MemberAuthority, type MemberStand } from '../support/organization-members.ts'

export const RESOURCE = 'https://tools.example/mcp/amy'
/** The credential of the one that enforces amy's. */
export const OWN = randomBytes(24).toString('base64url')
/** The credential of an enforcement point that enforces another's resource. */
export const OTHER = randomBytes(24).toString('base64url')
export const clause = (changes: object = {}) => ({
  enabled: true,
  resources: ['acme/vault'],
  max_expires_in: 300,
  require_reason: true,
  ...changes,
})
export const newKey = (): PrivateKey => importPrivateJwk(generatePrivateJwk())
export const desk = createServer((_request, response) => {
  response.setHeader('content-type', 'application/json')
  response.end(JSON.stringify({ keys: [publicJwk(agent)] }))
})
export const agent = newKey()
export const stranger = newKey()
/** With the organization's own tables at hand. */
export async function inDatabase(work: (db: Db) => Promise<void>): Promise<void> {
  const url = stand.organization.environment['DATABASE_URL']!
  const database = ORGANIZATION_DATABASE.open({ url, poolMax: 16, onConnectionError: () => undefined })
  await work(database.db)
  await database.close()
}
export let stand: MemberStand

const isAsking = (notice: string) => parseJws(notice).payload['kind'] === 'break_glass'
/** What her authority says yes to: everything, unless a test says otherwise. */
export const accepting =
  (
    { uri, key }: Pick<MemberAuthority, 'uri' | 'key'>,
    changes: object = {},
    typ: string = TYP.breakGlassAccepted,
  ) =>
  (notice: string) => {
    if (!isAsking(notice)) return undefined
    const grant = parseJws(notice).payload['grant'] as unknown as BreakGlassGrant
    const claims = { iss: uri, aud: ORG_ISSUER, owner: asOwner('amy'), ...grant, ...changes }
    const accepted = signJws({ typ, payload: claims }, key)
    return { status: 200, body: { received: 'break_glass', accepted } }
  }
export const accepts = (changes: object = {}, typ?: string) => {
  stand.first.decide = accepting(stand.first, changes, typ)
}
export const answers = (answer: { status: number; body?: object } | 'hang') => {
  stand.first.decide = notice => (isAsking(notice) ? answer : undefined)
}
export const kinds = () => stand.first.notices.map(notice => parseJws(notice).payload['kind'])

export const open = async (json: object = {}) =>
  stand.organization.admin({
    method: 'POST',
    target: '/admin/break-glass',
    json: { owner: 'amy', reason: 'the server room burns', window_s: 600, ...json },
  })
export const voucher = async () => (await open()).body.voucher as string
export const body = (changes: object = {}) => ({
  owner: 'amy',
  resource: RESOURCE,
  resource_id: 'acme/vault',
  scopes: ['read'],
  reason: 'fire',
  agent_jwk: publicJwk(agent),
  operation: { tool: 'open', params: { door: 1 } },
  ...changes,
})
export const signed = (json: object, call: Partial<OwnerCall> = {}, key = agent): PreparedCall =>
  prepare(
    stand.organization.publicUrl,
    ORG_ISSUER,
    { key },
    { method: 'POST', target: '/break-glass', json, ...call },
  )
export const redeem = async (changes: object = {}, call: Partial<OwnerCall> = {}, key = agent) =>
  exchange(signed(body(changes), call, key))
export const granted = async () => {
  const { status, body: answer } = await redeem({ voucher: await voucher() })
  expect(status).toBe(200)
  return answer.access_token as string
}
export const ask = (path: string, token: string, credential = OWN) =>
  stand.organization.request(path, {
    method: 'POST',
    headers: { authorization: `Bearer ${credential}`, 'content-type': 'application/x-www-form-urlencoded' },
    body: String(new URLSearchParams({ token })),
  })
export const refusal = ({ status, body: said }: { status: number; body: JsonObject }) => [
  status,
  said['reason'] ?? said['error'],
]
/**
 * Registers the hooks of a suite: an organization of which amy and ben are members, and a desk that publishes
 * the agent's key; `environment` are further settings of the organization, `log` is where its lines go.
 */
export function startEmergencies(environment: Record<string, string> = {}, log?: Logger): void {
  beforeAll(async () => {
    await new Promise<void>(resolve => desk.listen(0, '127.0.0.1', resolve))
    stand = await startMemberStand({
      environment,
      log,
      file: {
        charter: charterOf({ break_glass: clause() }),
        enforcement_points: [
          { id: 'own', resources: [RESOURCE], credential: OWN },
          { id: 'other', resources: ['https://other.example/mcp/ben'], credential: OTHER },
        ],
      },
    })
    await stand.joined('amy')
    await stand.joined('ben')
  })
  afterAll(async () => {
    await stand.close()
    desk.close()
  })
  beforeEach(() => {
    stand.first.notices.length = 0
    accepts()
  })
}
