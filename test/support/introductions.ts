/**
 * Owns a setting in which agents introduce others: an authority that reads agent tokens of one issuer, and an
 * operator that publishes many keys.
 */
import { beforeEach } from 'vitest'
import { signIntroduction } from '../../src/wire/agents/introduction.ts'
import type { PrivateKey, PublicKey } from '../../src/wire/signatures/keys.ts'
import { startTestAuthority, type Reply, type TestAuthority } from './authority.ts'
import { newKey, startIssuer, startOperator, type TestIssuer, type TestOperator } from './operators.ts'
import { startedOnce } from './started.ts'
import { denyAll, testAgent, type TestAgent } from './test-agent.ts'

export interface IntroductionStand {
  authority: TestAuthority
  issuer: TestIssuer
  operator: TestOperator
  /** A key that the operator publishes, each time another. */
  nextKey: () => PrivateKey
  /** An agent that names the operator, or another. */
  agentOf: (key: PrivateKey, client_id?: string) => TestAgent
  /** The same under an agent token of the issuer with these claims. */
  identifiedOf: (key: PrivateKey, claims?: Record<string, unknown>) => TestAgent
  /** An agent of the operator that the owner approved in person. */
  introducerAgent: () => Promise<TestAgent>
  /** Good for a minute but for what `more` changes; under `agent_token` if given. */
  introduction: (by: PrivateKey, newcomer: PublicKey, more?: object, agent_token?: string) => string
  /** A signed request of the owner that changes something. */
  post: (target: string, json: unknown) => Promise<Reply>
  revoke: (handle: string) => Promise<Reply>
  connectionOf: (handle: string) => Promise<Record<string, unknown> | undefined>
}

export const nowSeconds = (): number => Math.floor(Date.now() / 1000)

/** Good for a minute at `aud`; `more` changes what it says. */
export function introductionTo(
  aud: string,
  by: PrivateKey,
  newcomer: PublicKey,
  more: { agent_token?: string | undefined } = {},
): string {
  const iat = nowSeconds()
  return signIntroduction({ newcomer, aud, iat, exp: iat + 60, jti: 'int_1', ...more }, by)
}

/** Registers the hooks that start and end it; before each test nothing waits for the owner. */
export function introductionStand(): IntroductionStand {
  // The operator publishes them all beforehand: a directory just read is read again only after ten seconds.
  const keys = Array.from({ length: 80 }, newKey)
  let subjects = 0

  const issuer = startedOnce(() => startIssuer())
  const operator = startedOnce(() => startOperator({ keys: [...keys] }))
  const authority = startedOnce(() =>
    startTestAuthority({
      environment: { UMA_AS_AGENT_ISSUERS: issuer.iss, UMA_DEV_LOOPBACK: 'true' },
    }),
  )
  beforeEach(() => denyAll(authority))

  const nextKey = () => keys.pop()!
  const agentOf = (key: PrivateKey, client_id = operator.client_id) =>
    testAgent(authority, { key, client_id })
  const post = (target: string, json: unknown) =>
    authority.call(authority.alice, { method: 'POST', target, json })
  return {
    authority,
    issuer,
    operator,
    nextKey,
    agentOf,
    identifiedOf: (key, claims = {}) =>
      testAgent(authority, {
        key,
        client_id: operator.client_id,
        identified: issuer.identify(key, `agent-${subjects++}`, claims),
      }),
    introducerAgent: async () => {
      const agent = agentOf(nextKey())
      await agent.granted()
      return agent
    },
    introduction: (by, newcomer, more, agent_token) =>
      introductionTo(authority.issuer, by, newcomer, { agent_token, ...more }),
    post,
    revoke: handle => post('/owner/connections/revoke', { handle }),
    connectionOf: async handle => {
      const { body } = await authority.call(authority.alice, { target: '/owner/connections?limit=1000' })
      return (body as Record<string, unknown>[]).find(connection => connection['handle'] === handle)
    },
  }
}
