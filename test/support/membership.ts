/**
 * Owns an authority and an organization of which its owners may become members, for tests: each at its own
 * address, so that they find and prove each other as in production.
 */
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { isDeepStrictEqual } from 'node:util'
import { freePorts } from '../../src/dev/stack/ports.ts'
import { asOwner } from '../../src/wire/identifiers.ts'
import { importPrivateJwk, type PrivateJwk, type PrivateKey } from '../../src/wire/signatures/keys.ts'
import { signNotice, type Notice, type NoticeClaims } from '../../src/wire/organization/notice.ts'
import {
  startTestAuthority,
  type OwnerCall,
  type Reply,
  type TestAuthority,
  type TestAuthorityOptions,
  type TestOwner,
} from './authority.ts'
import { dueAtOnce } from './due.ts'
import { charterOf, startTestOrganization, type TestOrganization } from './organization.ts'
import { until } from './until.ts'

/** Claims a part of alice's world: of what it claims it shares all but her trades. */
export const CLAIMING = {
  claims: ['alice/portfolio', 'alice/trades', 'alice/account'],
  roles: {
    staff: { name: 'Staff', grants: ['alice/portfolio', 'alice/account'], delegation: 'any-agent' },
    traders: { name: 'Traders', grants: ['alice/portfolio', 'alice/trades'], delegation: 'any-agent' },
  },
  default_role: 'staff',
  envelope: {
    max_expires_in: 900,
    allowed_scopes: ['read', 'trade'],
    require_prohibited: ['passing it on'],
    always_ask: [],
  },
}

export interface MembershipStand {
  authority: TestAuthority
  organization: TestOrganization
  /** The organization's issuer. */
  issuer: string
  alice: TestOwner
  /** A request of alice's to `/owner/organization…`. */
  own(method: OwnerCall['method'], below?: string, json?: object): Promise<Reply>
  /** The code of a fresh invitation of alice. */
  invited(): Promise<string>
  /** What she sends to join by a code that she has previewed. */
  agreeing(code: string): Promise<Record<string, unknown>>
  /** Invites her, and she joins. */
  joined(): Promise<Reply>
  /** Publishes the charter with these changes. */
  publish(changes: object): Promise<void>
  /** The same, until what she sees of her membership has `member` of that charter's envelope. */
  publishUntilSeen(changes: { envelope: object }, member: string): Promise<void>
  /** A notice about alice, changed by `claims`; signed with the organization’s key if no other is given. */
  noticeOf(notice: Notice, claims?: Partial<NoticeClaims>, jwk?: PrivateJwk): Promise<string>
  /** Sends a notice to the authority. */
  post(notice: string): Promise<Reply>
  close(): Promise<void>
}

/** A notice of an organization about alice, its one member, changed by `claims`, as it is sent. */
export async function noticeBy(
  { issuer, key }: { issuer: string; key: PrivateKey },
  authority: TestAuthority,
  notice: Notice,
  claims: Partial<NoticeClaims> = {},
): Promise<string> {
  const { rows } = await authority.database.pool.query<{ join_id: string }>('SELECT join_id FROM memberships')
  const iat = Math.floor(Date.now() / 1000)
  const said: NoticeClaims = {
    iss: issuer,
    aud: authority.issuer,
    sub: asOwner('alice'),
    membership: rows[0]!.join_id,
    jti: randomBytes(12).toString('hex'),
    iat,
    exp: iat + 60,
    ...claims,
  }
  return signNotice(said, notice, key)
}

/** Calls of the owner's, alice when left out, about her membership: below `/owner/organization`. */
export function membershipCalls(authority: TestAuthority, owner = authority.alice): MembershipStand['own'] {
  return (method, below = '', json) =>
    authority.call(owner, {
      method: method ?? 'GET',
      target: `/owner/organization${below}`,
      ...(json === undefined ? {} : { json }),
    })
}

/**
 * Starts both; `charter` are changes of the first charter beside `CLAIMING`, `file` members of the
 * organization's provisioning file, `listen` is where the organization listens for the relay in front of it
 * at its issuer's address.
 */
export async function startMembershipStand(
  options: {
    charter?: object
    file?: object
    /** Further settings of the organization. */
    organization?: Record<string, string>
    authority?: TestAuthorityOptions
    listen?: string
    /** The organization is a separate process. */
    asProcess?: boolean
    /** Called when the organization runs and the authority does not yet. */
    before?: (issuer: string) => Promise<void>
  } = {},
): Promise<MembershipStand> {
  const [forOrganization, forAuthority] = await freePorts(2)
  const issuer = `http://127.0.0.1:${forOrganization}`
  const as_uri = `http://127.0.0.1:${forAuthority}`
  const organization = await startTestOrganization({
    environment: {
      UMA_DEV_LOOPBACK: 'true',
      UMA_ORG_ISSUER: issuer,
      UMA_ORG_LISTEN: options.listen ?? `127.0.0.1:${forOrganization}`,
      UMA_ORG_AUTHORITIES: as_uri,
      ...options.organization,
    },
    file: { charter: charterOf({ ...CLAIMING, ...options.charter }), ...options.file },
    asProcess: options.asProcess ?? false,
  })
  await options.before?.(issuer)
  const authority = await startTestAuthority({
    ...options.authority,
    environment: {
      UMA_DEV_LOOPBACK: 'true',
      UMA_AS_ISSUER: as_uri,
      UMA_AS_LISTEN: `127.0.0.1:${forAuthority}`,
      UMA_AS_ORGANIZATIONS: issuer,
      ...options.authority?.environment,
    },
  })
  const { alice } = authority
  const own = membershipCalls(authority)
  const invited: MembershipStand['invited'] = async () => {
    const json = { owner: alice.owner, as_uri }
    const { body } = await organization.admin({ method: 'POST', target: '/admin/invites', json })
    return body.code as string
  }
  const agreeing: MembershipStand['agreeing'] = async code => {
    const { body } = await own('POST', '/preview', { code })
    return { code, agreed: true, charter_version: body.charter_version, binds_s256: body.binds_s256 }
  }
  const publish: MembershipStand['publish'] = async changes => {
    const { body } = await organization.admin({ target: '/admin/charter' })
    const json = { charter: charterOf({ ...CLAIMING, ...changes }), base_version: body.version }
    const { status, text } = await organization.admin({ method: 'PUT', target: '/admin/charter', json })
    if (status !== 200) throw new Error(text)
  }
  return {
    authority,
    organization,
    issuer,
    alice,
    own,
    invited,
    agreeing,
    joined: async () => own('POST', '', await agreeing(await invited())),
    publish,
    publishUntilSeen: async (changes, member) => {
      const published = new Map<string, unknown>(Object.entries(changes.envelope)).get(member)
      await publish(changes)
      await dueAtOnce(authority.database, 'view')
      await until(async () => isDeepStrictEqual((await own('GET')).body[member], published))
    },
    noticeOf: async (notice, claims = {}, jwk) => {
      const file = readFileSync(organization.environment['UMA_ORG_KEYS_FILE']!, 'utf8')
      const key = importPrivateJwk(jwk ?? (JSON.parse(file) as { keys: PrivateJwk[] }).keys[0]!)
      return noticeBy({ issuer, key }, authority, notice, claims)
    },
    post: notice =>
      authority.request('POST', '/org/notice', {
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ notice }),
      }),
    close: async () => {
      await authority.close()
      await organization.close()
    },
  }
}
