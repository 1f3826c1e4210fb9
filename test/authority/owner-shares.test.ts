/**
 * Whose share of the pool a statement takes: contract, "What the service does" (many owners at one authority:
 * load on one owner must not slow another). An owner whose requests take connections on behalf of nobody
 * could take them all.
 */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { STATEMENTS_CHANNEL, type SentStatement } from '../../src/storage/core/database.ts'
import { authorityStand } from '../support/stands.ts'
import { testAgent } from '../support/test-agent.ts'

const authority = authorityStand()

/** Reads the key of a signature that is not verified yet: whoever names her key must not take her share. */
const BEFORE_PROOF = / FROM device_keys UNION ALL .* WHERE owner = \$1 AND kid = \$2$/
/** Completes her tree and makes her due for the sweeper after a commit: no request waits for it. */
const BESIDE_REQUESTS = /prepared as (?:sweep-within|tree-behind) /

/** The statements that were sent, by whose share they took; undefined: nobody's. */
const sent = new Map<string | undefined, Set<string>>()
const hear = (message: unknown): void => {
  const { text, values, owner } = message as SentStatement
  // Whoever looks for an owner does not know her yet: only what is about one can take her share.
  if (!values.includes('alice')) return
  const texts = sent.get(owner) ?? new Set()
  sent.set(owner, texts.add(text.replaceAll(/\s+/g, ' ').trim()))
}
beforeAll(() => subscribe(STATEMENTS_CHANNEL, hear))
afterAll(() => void unsubscribe(STATEMENTS_CHANNEL, hear))

const asked = async (path: string, form: Record<string, string>) => {
  const reply = await authority.request('POST', path, {
    headers: {
      authorization: `Bearer ${await authority.pat()}`,
      'content-type': 'application/x-www-form-urlencoded',
    },
    body: new URLSearchParams(form).toString(),
  })
  expect(reply.status).toBe(200)
  return reply.body as Record<string, unknown>
}

describe('Every statement about an owner takes a connection of her share', () => {
  it('in a negotiation, in the calls that follow, and in her own requests', async () => {
    const agent = testAgent(authority)
    const { rpt } = await agent.granted('place_trade', { operation: { tool: 'place_trade', params: {} } })
    expect(await asked('/introspect', { token: rpt })).toMatchObject({ active: true })
    expect(await asked('/consume', { token: rpt })).toMatchObject({ consumed: true })
    for (const list of ['pending', 'connections', 'ledger', 'policies', 'resources', 'resource-servers']) {
      const { status } = await authority.call(authority.alice, { target: `/owner/${list}` })
      expect(status, list).toBe(200)
    }
    const json = { handle: agent.handle }
    const revoke = { method: 'POST', target: '/owner/connections/revoke', json } as const
    expect((await authority.call(authority.alice, revoke)).status).toBe(200)
    const unpaid = [...sent.get(undefined)!].filter(text => !BESIDE_REQUESTS.test(text))
    expect(unpaid).toEqual([expect.stringMatching(BEFORE_PROOF)])
    const named = [...sent.get('alice')!].flatMap(text => /prepared as ([a-z-]+)/.exec(text)?.[1] ?? [])
    expect(named).toEqual(
      expect.arrayContaining(['open-families', 'present-tickets', 'record-grants', 'read-grants']),
    )
  })
})
