/**
 * Contract, "Authentication" (agent-token issuers) and decisions on identified agents: what issuers publish,
 * and what follows if it cannot be had.
 */
import { describe, expect, it } from 'vitest'
import { publicJwk } from '../../src/wire/signatures/keys.ts'
import { WELL_KNOWN } from '../../src/wire/names.ts'
import { asHandle } from '../../src/wire/identifiers.ts'
import { startTestAuthority } from '../support/authority.ts'
import { newKey, startIssuer, type TestIssuer } from '../support/operators.ts'
import type { Reply } from '../support/scripted-http.ts'
import { AGREEMENT_FORMAT, testAgent } from '../support/test-agent.ts'

let subjects = 0
const newSubject = () => `agent-${subjects++}`

/** What an agent is answered whose issuer's keys cannot be had. */
const OUTAGE = {
  answer: [503, 'temporarily_unavailable', expect.stringMatching(/^agent_token: .*; try again later\.$/)],
  ticket: expect.any(String),
}

interface Asked {
  /** Status, error and its sentence. */
  answer: unknown[]
  ticket: unknown
  /** The kinds of all entries of hers. */
  ledger: string[]
}

/** As another authority would begin: nothing fetched yet. Ends with the test file. */
async function withIssuer(
  scripts: Record<string, Reply>,
): Promise<{ issuer: TestIssuer; ask: () => Promise<Asked> }> {
  const hostile = await startIssuer()
  for (const [path, reply] of Object.entries(scripts)) hostile.server.script(path, reply)
  const other = await startTestAuthority({
    environment: { UMA_AS_AGENT_ISSUERS: hostile.iss, UMA_DEV_LOOPBACK: 'true' },
  })
  const ask = async () => {
    const key = newKey()
    const agent = testAgent(other, { key, identified: hostile.identify(key, newSubject()) })
    const { status, body } = await agent.ask()
    const { body: told } = await other.call(other.alice, { target: '/owner/ledger?limit=1000' })
    await other.close()
    await hostile.close()
    return {
      answer: [status, body.error, body.error_description],
      ticket: body.ticket as unknown,
      ledger: (told.entries as { kind: string }[]).map(entry => entry.kind),
    }
  }
  return { issuer: hostile, ask }
}

describe("The issuer's documents", () => {
  it('are fetched once for many agents at once, and kept', async () => {
    const fresh = await startIssuer()
    const other = await startTestAuthority({
      environment: { UMA_AS_AGENT_ISSUERS: fresh.iss, UMA_DEV_LOOPBACK: 'true' },
    })
    const replies = await Promise.all(
      Array.from({ length: 5 }, () => {
        const key = newKey()
        return testAgent(other, { key, identified: fresh.identify(key, newSubject()) }).ask()
      }),
    )
    expect(replies.map(reply => reply.body.error)).toEqual(Array(5).fill('request_submitted'))
    expect(fresh.server.to(WELL_KNOWN.agentIssuer)).toHaveLength(1)
    expect(fresh.server.to('/jwks.json')).toHaveLength(1)
    // An unknown kid causes one fetch a minute, whichever caller names it.
    for (let n = 0; n < 3; n++) {
      const key = newKey()
      const agent_token = fresh.token(key, {}, { key: newKey() })
      await testAgent(other, { key, identified: { agent_token, handle: asHandle('nobody') } }).ask()
    }
    expect(fresh.server.to('/jwks.json')).toHaveLength(1)
    await other.close()
    await fresh.close()
  })

  it('may name keys elsewhere, and other keys beside that are of no use', async () => {
    const elsewhere = await startIssuer()
    const { issuer: moved, ask } = await withIssuer({})
    elsewhere.keys = moved.keys
    moved.server.script(WELL_KNOWN.agentIssuer, {
      body: { issuer: moved.iss, jwks_uri: `${elsewhere.iss}/jwks.json` },
    })
    elsewhere.server.script('/jwks.json', {
      body: { keys: [{ kty: 'RSA', n: 'x', e: 'AQAB' }, {}, publicJwk(moved.keys[0]!)] },
    })
    expect((await ask()).answer).toEqual([403, 'request_submitted', undefined])
    await elsewhere.close()
  })

  it.each<[string, Record<string, Reply>]>([
    ['not there', { [WELL_KNOWN.agentIssuer]: { status: 404 } }],
    ['a redirect', { [WELL_KNOWN.agentIssuer]: { status: 302, headers: { location: '/jwks.json' } } }],
    [
      'of another issuer',
      {
        [WELL_KNOWN.agentIssuer]: {
          body: { issuer: 'https://other.example', jwks_uri: 'https://other.example/jwks' },
        },
      },
    ],
    ['without issuer', { [WELL_KNOWN.agentIssuer]: { body: { jwks_uri: 'https://other.example/jwks' } } }],
    ['without jwks_uri', { [WELL_KNOWN.agentIssuer]: { body: {} } }],
    [
      'of another media type',
      { [WELL_KNOWN.agentIssuer]: { body: '{}', headers: { 'content-type': 'text/html' } } },
    ],
    [
      'JSON with a member named twice',
      {
        [WELL_KNOWN.agentIssuer]: {
          body: Buffer.from('{"issuer":"a","issuer":"b"}'),
          headers: { 'content-type': 'application/json' },
        },
      },
    ],
    ['with keys that are none', { '/jwks.json': { body: { keys: 'none' } } }],
    ['with keys that are a redirect', { '/jwks.json': { status: 301, headers: { location: '/keys.json' } } }],
    ['with keys that are not there', { '/jwks.json': { status: 503 } }],
  ])('where they are %s, that is an outage and no denial', async (_, scripts) => {
    const { ask } = await withIssuer(scripts)
    expect(await ask()).toEqual({ ...OUTAGE, ledger: [] })
  })

  it.each([WELL_KNOWN.agentIssuer, '/jwks.json'])(
    'where %s is larger than any that is read, that is told, as an outage and no denial',
    async path => {
      const { ask } = await withIssuer({ [path]: { body: { filler: 'x'.repeat(600_000) } } })
      expect(await ask()).toEqual({
        answer: [503, 'temporarily_unavailable', expect.stringContaining('larger than 524288 bytes')],
        ticket: expect.any(String),
        ledger: [],
      })
    },
  )

  it('may be key sets with certificates, of 70 KiB and more', async () => {
    const { issuer: large, ask } = await withIssuer({})
    const keys = [{ kty: 'RSA', n: 'x', e: 'AQAB', x5c: ['M'.repeat(300_000)] }, publicJwk(large.keys[0]!)]
    large.server.script('/jwks.json', { body: { keys } })
    expect((await ask()).answer).toEqual([403, 'request_submitted', undefined])
  })

  it('if its keys are at a private address or under http, nothing is fetched there', async () => {
    for (const jwks_uri of [
      'https://10.0.0.1/jwks',
      'http://issuer.example/jwks',
      'https://localhost/jwks',
    ]) {
      const { issuer: sly, ask } = await withIssuer({})
      sly.server.script(WELL_KNOWN.agentIssuer, { body: { issuer: sly.iss, jwks_uri } })
      expect(await ask()).toEqual({
        answer: [503, 'temporarily_unavailable', expect.stringMatching(/address|https URL/)],
        ticket: expect.any(String),
        ledger: [],
      })
    }
  })

  it('if they cannot be had, leave the negotiation as it was: the same agreement comes again with the next ticket', async () => {
    const silent = await startIssuer()
    silent.server.script('/jwks.json', { status: 503 })
    const environment = { UMA_AS_AGENT_ISSUERS: silent.iss, UMA_DEV_LOOPBACK: 'true' }
    const first = await startTestAuthority({ environment })
    const key = newKey()
    const agent = testAgent(first, { key, identified: silent.identify(key, newSubject()) })
    const offer = await agent.offer()
    const claim_token = agent.claimToken(offer.template)
    const answer = async (ticket: string, at = agent) => {
      const { status, body } = await at.present(ticket, {
        claim_token,
        claim_token_format: AGREEMENT_FORMAT,
      })
      return { status, body }
    }
    const outage = await answer(offer.ticket)
    expect(outage).toMatchObject({ status: 503, body: { error: 'temporarily_unavailable' } })
    const still = await answer(outage.body.ticket)
    expect(still).toMatchObject({ status: 503, body: { error: 'temporarily_unavailable' } })
    // Another replica has not tried this issuer yet, and meets it in good order.
    silent.server.script('/jwks.json', { body: { keys: silent.keys.map(one => publicJwk(one)) } })
    const second = await startTestAuthority({ beside: first })
    const there = testAgent(second, { key, identified: silent.identify(key, newSubject()) })
    const held = await answer(still.body.ticket, there)
    expect(held).toMatchObject({ status: 403, body: { error: 'request_submitted', kind: 'connection' } })
    await second.close()
    await first.close()
    await silent.close()
  })
})
