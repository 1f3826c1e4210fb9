/**
 * Owns an organization with two authorization servers whose owners may join it, for tests. Those servers need
 * nothing but their keys; everything goes through real sockets.
 */
import { createServer, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Logger } from '../../src/http/telemetry/log.ts'
import {
  generatePrivateJwk,
  importPrivateJwk,
  publicJwk,
  type PrivateKey,
} from '../../src/wire/signatures/keys.ts'
import { exchange, prepare, type OwnerCall, type Reply } from './authority.ts'
import { charterOf, ORG_ISSUER, startTestOrganization, type TestOrganization } from './organization.ts'

/** An answer to a notice; undefined: as every other one is answered. */
type Decided = { status: number; body?: object } | 'hang' | undefined

export interface MemberAuthority {
  uri: string
  key: PrivateKey
  server: Server
  /** The notices that it was told, as their bodies had them, those that it did not take among them. */
  notices: string[]
  /** How it answers a notice; 200 by default. */
  answers: { status: number; body?: object }
  /** Answers a notice in place of that, as its text tells; `hang`: never. */
  decide?: ((notice: string) => Decided | Promise<Decided>) | undefined
  /** What its metadata names beside the issuer. */
  metadata: Record<string, unknown>
}

export interface MemberStand {
  first: MemberAuthority
  second: MemberAuthority
  organization: TestOrganization
  /** Signs as an authority and sends. */
  signedBy(authority: MemberAuthority, call: OwnerCall, at?: TestOrganization): Promise<Reply>
  /** POST to `/member/<what>`, signed by the first by default. */
  post(what: string, json: object, by?: MemberAuthority): Promise<Reply>
  /** Signs as an authority, covering a membership token, and sends. */
  asMember(token: string, call: OwnerCall, by?: MemberAuthority): Promise<Reply>
  /** The code of a fresh invitation. */
  invited(owner: string, by?: MemberAuthority): Promise<string>
  /** What a join sends for an owner who previewed with this code. */
  joining(
    person: { owner: string; join_id: string },
    code: string,
    by?: MemberAuthority,
  ): Promise<Record<string, unknown>>
  /** Invites an owner of the first and lets her join. @returns her membership token. */
  joined(owner: string): Promise<string>
  /** Publishes the test charter with these changes over the one in force. */
  publish(changes: object): Promise<void>
  close(): Promise<void>
}

async function startMemberAuthority(): Promise<MemberAuthority> {
  const key = importPrivateJwk(generatePrivateJwk())
  const server = createServer((request, response) => {
    void bodyOf(request).then(async body => {
      const answer = await answerOf(request.url!, body)
      if (answer === 'hang') return
      const { status, json } = answer
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(json))
    })
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const uri = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const metadata = { org_notice_endpoint: `${uri}/org/notice` }
  const authority: MemberAuthority = { uri, key, server, notices: [], answers: { status: 200 }, metadata }
  const answerOf = async (path: string, body: string): Promise<{ status: number; json: object } | 'hang'> => {
    if (path === '/.well-known/agents-configuration')
      return { status: 200, json: { issuer: uri, ...authority.metadata } }
    if (path === '/jwks') return { status: 200, json: { keys: [publicJwk(key)] } }
    if (path.startsWith('/org/admin/')) return { status: 200, json: administered(path, body) }
    const { notice } = JSON.parse(body) as { notice: string }
    authority.notices.push(notice)
    const decided = (await authority.decide?.(notice)) ?? authority.answers
    return decided === 'hang' ? decided : { status: decided.status, json: decided.body ?? {} }
  }
  return authority
}

/** Nothing is there to administer, and every act is done. */
function administered(path: string, body: string): object {
  if (body !== '') return {}
  return path.includes('/ledger') ? { entries: [], next: null } : []
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  let text = ''
  for await (const chunk of request) text += String(chunk)
  return text
}

/**
 * Starts all three; `file` are members of the provisioning file beside the usual ones, `environment` further
 * settings of the organization, `administrators` others beside the usual one, `log` is where its lines go.
 */
export async function startMemberStand({
  file,
  environment: more = {},
  administrators = [],
  log,
}: {
  file?: object
  environment?: Record<string, string>
  administrators?: object[]
  log?: Logger | undefined
} = {}): Promise<MemberStand> {
  const [first, second] = [await startMemberAuthority(), await startMemberAuthority()]
  const listed = { UMA_DEV_LOOPBACK: 'true', UMA_ORG_AUTHORITIES: `${first.uri},${second.uri}` }
  const environment = { ...listed, ...more }
  const organization = await startTestOrganization({
    environment,
    administrators,
    log,
    ...(file === undefined ? {} : { file }),
  })
  const signedBy: MemberStand['signedBy'] = (authority, call, at = organization) =>
    exchange(prepare(at.publicUrl, ORG_ISSUER, { key: authority.key }, call))
  const post: MemberStand['post'] = (what, json, by = first) =>
    signedBy(by, { method: 'POST', target: `/member/${what}`, json })
  const asMember: MemberStand['asMember'] = (token, call, by = first) => {
    const components = ['@method', '@authority', '@path', 'authorization']
    if (call.target.includes('?')) components.push('@query')
    if (call.json !== undefined) components.push('content-digest')
    const headers = { authorization: `Bearer ${token}`, ...call.headers }
    return signedBy(by, { sign: { components }, ...call, headers })
  }
  const invited: MemberStand['invited'] = async (owner, by = first) => {
    const json = { owner, as_uri: by.uri }
    const { body } = await organization.admin({ method: 'POST', target: '/admin/invites', json })
    return body.code as string
  }
  const joining: MemberStand['joining'] = async ({ owner, join_id }, code, by = first) => {
    const person = { owner, as_uri: by.uri, code }
    const { body } = await post('preview', person, by)
    return { ...person, join_id, charter_version: body.charter_version, binds_s256: body.binds_s256 }
  }
  return {
    first,
    second,
    organization,
    signedBy,
    post,
    asMember,
    invited,
    joining,
    joined: async owner => {
      const asked = await joining({ owner, join_id: `join-of-${owner}-0000000` }, await invited(owner))
      return (await post('join', asked)).body.membership_token as string
    },
    publish: async changes => {
      const { body } = await organization.admin({ target: '/admin/charter' })
      const json = { charter: charterOf(changes), base_version: body.version }
      await organization.admin({ method: 'PUT', target: '/admin/charter', json })
    },
    close: async () => {
      await organization.close()
      for (const { server } of [first, second]) server.close()
    },
  }
}
