/**
 * What waited when an organization began to have its members' agents vouched for: contract, "need_info answer
 * (beat 2)" (format id-jag), "Organization membership, on the member's authorization server".
 */
import { randomBytes } from 'node:crypto'
import { afterEach, describe, expect, it } from 'vitest'
import { ID_JAG } from '../../src/wire/names.ts'
import { startMembershipStand } from '../support/membership.ts'
import { startRealm } from '../support/realm.ts'
import { startedOnce } from '../support/started.ts'
import { decide, denyAll, testAgent, type TestAgent } from '../support/test-agent.ts'
import { dueAtOnce } from '../support/due.ts'

/** A provider, an organization that may name it, and an authority that lists it. */
const stand = startedOnce(async () => {
  const realm = await startRealm()
  const provider = { issuer: realm.issuer, subjects: { alice: 'p-alice' } }
  const environment = { UMA_AS_IDENTITY_ISSUERS: realm.issuer }
  const membership = await startMembershipStand({ authority: { environment } })
  const close = async () => {
    await membership.close()
    await realm.close()
  }
  return { ...membership, realm, provider, close }
})
afterEach(async () => {
  await denyAll(stand.authority)
  await stand.own('DELETE')
})

/** Beats 1 and 2 by an assertion of the provider, and the agreement. */
async function agreesVouchedFor(agent: TestAgent) {
  const iat = Math.floor(Date.now() / 1_000)
  const claims = {
    iss: stand.realm.issuer,
    sub: 'p-alice',
    aud: stand.authority.issuer,
    resource: 'https://tools.example/mcp/alice',
    jti: randomBytes(8).toString('hex'),
    iat,
    exp: iat + 300,
    cnf: { jkt: agent.key.thumbprint },
  }
  const asked = await agent.present(await agent.ticket('portfolio_read'))
  expect(asked.body.required_claims[0].claim_token_format).toEqual([ID_JAG])
  const { body } = await agent.present(asked.body.ticket, {
    claim_token: await stand.realm.sign(claims, { header: { typ: 'oauth-id-jag+jwt' } }),
    claim_token_format: ID_JAG,
  })
  return agent.agree({ ticket: body.ticket, template: body.required_claims[0].terms_template })
}

describe('What began to wait before the organization had anybody vouched for', () => {
  /** She is a member of an organization that names no provider, and one of her agents waits. */
  const waiting = async () => {
    await stand.publish({})
    await stand.joined()
    const agent = testAgent(stand.authority)
    const { body } = await agent.ask('portfolio_read')
    expect(body.error).toBe('request_submitted')
    await stand.publish({ identity_provider: stand.provider })
    await dueAtOnce(stand.authority.database, 'view')
    await expect
      .poll(async () => (await stand.own('GET')).body.waiting?.changes)
      .toContain(`${stand.realm.issuer} would vouch for who you are.`)
    return { agent, ticket: body.ticket as string }
  }
  const agrees = async () => {
    const { charter_version, binds_s256 } = (await stand.own('GET')).body
    expect((await stand.own('POST', '', { agreed: true, charter_version, binds_s256 })).status).toBe(200)
  }

  it('is collected as it was agreed to while she has not agreed to the provider', async () => {
    const { agent, ticket } = await waiting()
    await decide(stand.authority, agent.handle, 'approved')
    expect((await agent.present(ticket)).status).toBe(200)
  })

  it.each(['before', 'after'])(
    'is judged again at collection: approved %s she agreed to the provider, it is not granted to whom nobody vouched for',
    async when => {
      const { agent, ticket } = await waiting()
      if (when === 'before') await decide(stand.authority, agent.handle, 'approved')
      await agrees()
      if (when === 'after') await decide(stand.authority, agent.handle, 'approved')
      const { status, body } = await agent.present(ticket)
      expect([status, body.error]).toEqual([403, 'request_denied'])
      // Whoever asks anew is asked who vouches, and is the agent then that she let in.
      const again = await agreesVouchedFor(agent)
      expect(again.status).toBe(200)
    },
  )
})
