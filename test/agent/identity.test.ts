/**
 * contract, "Agreement (claim_token, beat 3)" (JWS protected header) and "Owner API" (introduction of a
 * sibling agent).
 */
import { describe, expect, it } from 'vitest'
import { createAgent, type AgentOptions } from '../../src/agent/index.ts'
import { openClaimToken } from '../../src/wire/negotiation/agreement.ts'
import { verifyIntroduction } from '../../src/wire/agents/introduction.ts'
import { signJws } from '../../src/wire/signatures/jws.ts'
import { generatePrivateJwk, importPrivateJwk } from '../../src/wire/signatures/keys.ts'
import { TYP } from '../../src/wire/names.ts'
import { startScriptedPeers } from '../support/scripted-resource.ts'
import { startedForEach } from '../support/started.ts'
import { newKey } from '../support/wire-samples.ts'

const peers = startedForEach(startScriptedPeers)

const key = newKey()
const call = (options: Partial<AgentOptions> = {}) =>
  createAgent({ key, allowLoopback: true, ...options }).call({
    resource: peers.resource,
    tool: 'portfolio_read',
  })

function agentToken(cnf = key.jwk): string {
  const now = Math.floor(Date.now() / 1000)
  const payload = {
    iss: 'https://agents.example',
    sub: 'agent-7',
    jti: 'at_1',
    iat: now,
    exp: now + 600,
    dwk: 'aauth-agent.json',
    cnf: { jwk: cnf },
  }
  return signJws({ typ: TYP.agentToken, payload }, newKey())
}

/** The header of the agreement presented; the scripted authority need not be able to verify it. */
async function presentedHeader(options: Partial<AgentOptions>): Promise<object> {
  let header = {}
  peers.authority.script('/token', ({ form }) => {
    if (!form.has('claim_token')) return undefined
    header = openClaimToken(form.get('claim_token')!).header
    return { status: 403, body: { error: 'request_denied' } }
  })
  await expect(call(options)).rejects.toMatchObject({ code: 'request_denied' })
  return header
}

describe('the agreement is signed', () => {
  it('under the bare key, if the agent has no token', async () => {
    expect(await presentedHeader({})).toEqual({ alg: 'EdDSA', typ: TYP.agreement, jwk: key.jwk })
  })

  it('under the agent token, in place of the key, asked for afresh each time', async () => {
    let asked = 0
    const header = await presentedHeader({
      agent_token: async () => {
        asked++
        return agentToken()
      },
    })
    expect(header).toHaveProperty('agent_token')
    expect(header).not.toHaveProperty('jwk')
    expect(asked).toBe(1)
  })

  it.each([
    ['bound to another key', () => agentToken(newKey().jwk)],
    ['that is none', () => 'token'],
  ])('not under a token %s: that is found out before it costs a negotiation', async (_what, token) => {
    await expect(call({ agent_token: token() })).rejects.toMatchObject({ code: 'request_invalid' })
    expect(peers.tokenForms().some(form => form['claim_token'])).toBe(false)
  })

  it('by a key given as JWK as well as by one already imported', async () => {
    const jwk = generatePrivateJwk()
    await call({ key: jwk })
    expect(peers.agreements[0]!.key.thumbprint).toBe(importPrivateJwk(jwk).thumbprint)
  })

  it('by no key that cannot be used', () => {
    expect(() => createAgent({ key: { ...generatePrivateJwk(), d: 'x' } })).toThrow('request_invalid')
  })
})

describe('an introduction', () => {
  const introducer = newKey()
  const now = () => Math.floor(Date.now() / 1000)
  const verified = () =>
    verifyIntroduction(
      peers.agreements[0]!.claims['introduction'] as string,
      { kind: 'key', key: introducer },
      {
        newcomer: key,
        aud: peers.issuer,
        now: now(),
      },
    )

  it('is signed afresh for the authority, if the introducer’s key is at hand', async () => {
    await call({ sign_introduction: { key: introducer } })
    expect(verified().exp - now()).toBeLessThanOrEqual(300)
  })

  it('made by another agent is carried as it is', async () => {
    const introduction = await createAgent({ key: introducer }).introduce({
      newcomer: key.jwk,
      authority: peers.issuer,
    })
    await call({ introduction })
    expect(peers.agreements[0]!.claims['introduction']).toBe(introduction)
    expect(verified().newcomer.thumbprint).toBe(key.thumbprint)
  })

  it('of something that is no key is not signed', async () => {
    const agent = createAgent({ key: introducer })
    await expect(
      agent.introduce({ newcomer: { ...key.jwk, x: 'short' }, authority: peers.issuer }),
    ).rejects.toMatchObject({
      code: 'introduction_failed',
    })
  })
})
