/**
 * Owns requests to `/org/admin/{owner}/…` of an authority, as an organization signs them for one of its
 * administrators: for tests, which change what such a token says.
 */
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { s256 } from '../../src/wire/encoding.ts'
import { asOwner } from '../../src/wire/identifiers.ts'
import { importPrivateJwk, type PrivateJwk, type PrivateKey } from '../../src/wire/signatures/keys.ts'
import {
  signOrganizationAdmin,
  type OrganizationAdminClaims,
} from '../../src/wire/organization/organization-admin.ts'
import { exchange, type PreparedCall, type Reply } from './authority.ts'
import type { MembershipStand } from './membership.ts'

export interface AdminCall {
  /** Below `/org/admin/{owner}`, with its query. */
  target: string
  method?: 'GET' | 'POST'
  json?: object
  owner?: string
  /** What the token says otherwise than it should. */
  claims?: Partial<Record<keyof OrganizationAdminClaims, unknown>>
  /** In place of the organization's own. */
  key?: PrivateKey
  /** Where another replica of the authority serves its owners. */
  at?: string
}

export function organizationKey({ organization }: MembershipStand): PrivateKey {
  const file = readFileSync(organization.environment['UMA_ORG_KEYS_FILE']!, 'utf8')
  return importPrivateJwk((JSON.parse(file) as { keys: PrivateJwk[] }).keys[0]!)
}

async function joinId({ authority }: MembershipStand, owner: string): Promise<string> {
  const { rows } = await authority.database.pool.query<{ join_id: string | null }>(
    'SELECT join_id FROM memberships WHERE owner = $1',
    [owner],
  )
  return rows[0]?.join_id ?? 'join_of_nobody'
}

/** Signs a request for `ines` without sending it, so that it can be sent twice. */
export async function prepareAdmin(stand: MembershipStand, call: AdminCall): Promise<PreparedCall> {
  const { authority } = stand
  const { target, json, owner = 'alice', method = json === undefined ? 'GET' : 'POST' } = call
  const body = json === undefined ? undefined : JSON.stringify(json)
  const path = `/org/admin/${owner}${target}`
  const iat = Math.floor(Date.now() / 1000)
  const claims: OrganizationAdminClaims = {
    iss: stand.issuer,
    aud: authority.issuer,
    sub: asOwner(owner),
    membership: await joinId(stand, owner),
    jti: randomBytes(12).toString('hex'),
    admin: 'ines',
    htm: method,
    htu: `${authority.ownerUrl}${path.split('?')[0]}`,
    ...(body === undefined ? {} : { body_s256: s256(body) }),
    iat,
    exp: iat + 60,
    ...(call.claims as object),
  }
  const token = signOrganizationAdmin(claims, call.key ?? organizationKey(stand))
  const headers = {
    authorization: `Bearer ${token}`,
    ...(body === undefined ? {} : { 'content-type': 'application/json' }),
  }
  return { url: (call.at ?? authority.ownerUrl) + path, method, headers, body }
}

/** Signs for `ines` and sends. */
export async function askAdmin(stand: MembershipStand, call: AdminCall): Promise<Reply> {
  return exchange(await prepareAdmin(stand, call))
}
