/**
 * What follows if an identity provider publishes more than is read: contract, "need_info answer (beat 2)"
 * (format id-jag): keys that cannot be had are an outage and no denial.
 */
import { randomBytes } from 'node:crypto'
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { ID_JAG } from '../../src/wire/names.ts'
import { startTestAuthority } from '../support/authority.ts'
import { startMembershipStand } from '../support/membership.ts'
import { startRealm, type TestRealm } from '../support/realm.ts'
import { startedOnce } from '../support/started.ts'
import { denyAll, testAgent, type TestAgent } from '../support/test-agent.ts'

const SUBJECT = 'p-alice'
const DISCOVERY = '/.well-known/openid-configuration'

const stand = startedOnce(async () => startMembershipStand({ charter: {} }))
let realm: TestRealm
beforeEach(async () => {
  realm = await startRealm()
  await stand.publish({ identity_provider: { issuer: realm.issuer, subjects: { alice: SUBJECT } } })
  await stand.joined()
})
afterEach(async () => {
  await denyAll(stand.authority)
  await stand.own('DELETE')
  await realm.close()
})

/** Another replica, which has fetched nothing yet. */
async function replica() {
  const fresh = await startTestAuthority({
    beside: stand.authority,
    environment: { UMA_AS_LISTEN: '127.0.0.1:0', UMA_AS_IDENTITY_ISSUERS: realm.issuer },
  })
  onTestFinished(() => fresh.close())
  return fresh
}

async function assertion({ key }: TestAgent): Promise<string> {
  const iat = Math.floor(Date.now() / 1_000)
  const claims = {
    iss: realm.issuer,
    sub: SUBJECT,
    aud: stand.authority.issuer,
    resource: 'https://tools.example/mcp/alice',
    jti: randomBytes(8).toString('hex'),
    iat,
    exp: iat + 300,
    cnf: { jkt: key.thumbprint },
  }
  return realm.sign(claims, { header: { typ: 'oauth-id-jag+jwt' } })
}

async function refusalsInLedger(): Promise<unknown> {
  const { body } = await stand.authority.call(stand.alice, { target: '/owner/ledger?kind=identity_refused' })
  return body.entries
}

describe('A provider whose documents are larger than any that is read', () => {
  it.each([DISCOVERY, '/jwks'])('is no denial before it is named: %s', async path => {
    realm.outgrow(path)
    const agent = testAgent(await replica())
    const ticket = await agent.ticket('portfolio_read')
    const { status, headers, body } = await agent.present(ticket)
    expect([status, body.error, body.ticket]).toEqual([503, 'temporarily_unavailable', ticket])
    expect(headers.get('retry-after')).toBe('5')
    expect(body.error_description).toContain('larger than any that is read')
  })

  it.each([DISCOVERY, '/jwks'])('is no denial of an assertion, which may come again: %s', async path => {
    const [read, unread] = [await replica(), await replica()]
    const agent = testAgent(read)
    const first = await agent.present(await agent.ticket('portfolio_read'))
    expect(first.body.required_claims[0].claim_token_format).toEqual([ID_JAG])
    realm.outgrow(path)
    const proof = { claim_token: await assertion(agent), claim_token_format: ID_JAG }
    const out = await testAgent(unread, { key: agent.key }).present(first.body.ticket, proof)
    expect([out.status, out.body.error]).toEqual([503, 'temporarily_unavailable'])
    expect(await refusalsInLedger()).toEqual([])
    const { body } = await agent.present(out.body.ticket, proof)
    expect(body.required_claims[0]).toHaveProperty('terms_template')
  })

  it('is no denial of an assertion by a key that was published with them', async () => {
    const agent = testAgent(await replica())
    const first = await agent.present(await agent.ticket('portfolio_read'))
    const proof = async () => ({ claim_token: await assertion(agent), claim_token_format: ID_JAG })
    const known = await proof()
    await realm.rotate()
    realm.outgrow('/jwks')
    const out = await agent.present(first.body.ticket, await proof())
    expect([out.status, out.body.error]).toEqual([503, 'temporarily_unavailable'])
    expect(await refusalsInLedger()).toEqual([])
    const { body } = await agent.present(out.body.ticket, known)
    expect(body.required_claims[0]).toHaveProperty('terms_template')
  })
})
