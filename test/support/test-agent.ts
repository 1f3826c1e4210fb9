/**
 * Owns an agent made by hand for the authority's tests: it presents tickets and signs agreements through the
 * wire functions, so that a test can weaken any part of what it says.
 */
import { encodeBase64url } from '../../src/wire/encoding.ts'
import { signJws } from '../../src/wire/signatures/jws.ts'
import { thumbprintHandle } from '../../src/wire/agents/handles.ts'
import { generatePrivateJwk, importPrivateJwk, type PrivateKey } from '../../src/wire/signatures/keys.ts'
import { GRANT_TYPE_UMA_TICKET, specNames } from '../../src/wire/names.ts'
import type { TermsTemplate } from '../../src/wire/negotiation/terms.ts'
import { WORLD, type Reply, type TestAuthority } from './authority.ts'
import type { Handle } from '../../src/wire/identifiers.ts'

export type ToolName = (typeof WORLD)[number]['tool']
/** Changes to what the agreement says; undefined removes a member, `header` changes the JWS header. */
export type Claims = Record<string, unknown>

export const AGREEMENT_FORMAT = specNames().agreementFormat

export interface TestAgent {
  key: PrivateKey
  handle: Handle
  /** A sealed ticket, as the enforcement point would get it. */
  ticket(tool?: ToolName, owner?: string): Promise<string>
  /** Presents a ticket, with the other given members. */
  present(ticket: string, form?: Record<string, string>): Promise<Reply>
  /** Beats 1 and 2. */
  offer(tool?: ToolName, owner?: string): Promise<{ ticket: string; template: TermsTemplate }>
  /** Beat 3: signs the offered terms, changed by `claims`. */
  agree(offer: { ticket: string; template: TermsTemplate }, claims?: Claims): Promise<Reply>
  /** Beats 1 to 3. */
  ask(tool?: ToolName, claims?: Claims, owner?: string): Promise<Reply>
  /** Beats 1 to 4, with the owner's approval if she is asked. */
  granted(tool?: ToolName, claims?: Claims): Promise<{ rpt: string; receipt: string }>
  claimToken(template: TermsTemplate, claims?: Claims): string
}

export interface TestAgentOptions {
  key?: PrivateKey
  client_id?: string
  signature_agent?: string
  /** Sent in place of the bare key, with the handle that it gives. */
  identified?: { agent_token: string; handle: Handle }
}

/** An agent with a key of its own, at one authority (its calls go to `through` if given). */
export function testAgent(authority: TestAuthority, options: TestAgentOptions = {}): TestAgent {
  const key = options.key ?? importPrivateJwk(generatePrivateJwk())
  const form = (fields: Record<string, string>) => ({
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: new URLSearchParams(fields).toString(),
  })
  const agent: TestAgent = {
    key,
    handle: options.identified?.handle ?? thumbprintHandle(key),
    ticket: async (tool = 'portfolio_read', owner: string = authority.alice.owner) => {
      const { resource, scope } = WORLD.find(entry => entry.tool === tool)!
      const reply = await authority.request('POST', '/perm', {
        headers: {
          authorization: `Bearer ${await authority.pat(owner)}`,
          'content-type': 'application/json',
        },
        body: JSON.stringify({ resource_id: `${owner}/${resource}`, resource_scopes: [scope] }),
      })
      if (reply.status !== 201) throw new Error(`/perm answered ${reply.status} ${reply.text}`)
      return reply.body.ticket as string
    },
    present: (ticket, fields = {}) =>
      authority.request('POST', '/token', form({ grant_type: GRANT_TYPE_UMA_TICKET, ticket, ...fields })),
    offer: async (tool, owner) => {
      const reply = await agent.present(await agent.ticket(tool, owner))
      if (reply.body.error !== 'need_info') throw new Error(`beat 2 answered ${reply.status} ${reply.text}`)
      return { ticket: reply.body.ticket, template: reply.body.required_claims[0].terms_template }
    },
    claimToken: (template, claims = {}) => {
      const { header, ...said } = claims as { header?: object }
      const payload = {
        ...template,
        iss: `agent:${key.thumbprint}`,
        aud: authority.issuer,
        iat: Math.floor(Date.now() / 1000),
        ...said,
      }
      const { client_id, signature_agent, identified } = options
      const who = identified === undefined ? { jwk: key.jwk } : { agent_token: identified.agent_token }
      const named = { ...who, client_id, signature_agent, ...header }
      return encodeBase64url(
        signJws({ typ: 'myterms-agreement-v1+jws', kid: false, header: named, payload }, key),
      )
    },
    agree: ({ ticket, template }, claims) =>
      agent.present(ticket, {
        claim_token: agent.claimToken(template, claims),
        claim_token_format: AGREEMENT_FORMAT,
      }),
    ask: async (tool, claims, owner) => agent.agree(await agent.offer(tool, owner), claims),
    granted: async (tool = 'portfolio_read', claims = {}) => {
      let reply = await agent.ask(tool, claims)
      if (reply.body.error === 'request_submitted') {
        await decide(authority, agent.handle, 'approved')
        reply = await agent.present(reply.body.ticket)
      }
      if (reply.status !== 200) throw new Error(`no grant: ${reply.status} ${reply.text}`)
      return { rpt: reply.body.access_token, receipt: reply.body.receipt }
    },
  }
  return agent
}

/** An item that waits for the owner, as the owner API tells it. */
export type PendingItem = Record<string, unknown> & { family: string; handle: string }

/** All that waits for her. */
export async function pendingAt(authority: TestAuthority): Promise<PendingItem[]> {
  const { body } = await authority.call(authority.alice, { target: '/owner/pending?limit=1000' })
  return body as PendingItem[]
}

/** She denies whatever waits. */
export async function denyAll(authority: TestAuthority): Promise<void> {
  for (const { handle } of await pendingAt(authority)) await decide(authority, handle, 'denied')
}

/** The owner decides the one item of this agent that waits. */
export async function decide(
  authority: TestAuthority,
  handle: string,
  decision: 'approved' | 'denied',
): Promise<Reply> {
  const item = (await pendingAt(authority)).find(entry => entry.handle === handle)
  if (item === undefined) throw new Error(`nothing of ${handle} waits`)
  return authority.call(authority.alice, {
    method: 'POST',
    target: `/owner/pending/${item.family}/decision`,
    json: { decision },
  })
}

/** A protection API call with a PAT of the owner's one resource server. */
export async function protectionCall(
  authority: TestAuthority,
  path: string,
  body: unknown,
  owner: string = authority.alice.owner,
): Promise<Reply> {
  return callWithPat(authority, await authority.pat(owner), path, body)
}

/** A protection API call with this PAT. */
export function callWithPat(
  authority: Pick<TestAuthority, 'request'>,
  pat: string,
  path: string,
  body: unknown,
): Promise<Reply> {
  return authority.request('POST', path, {
    headers: { authorization: `Bearer ${pat}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
}
