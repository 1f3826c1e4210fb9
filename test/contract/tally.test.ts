/**
 * Contract, "Tally for a jointly held resource": what it serves to anybody, against a started one.
 */
import { describe, expect, test } from 'vitest'
import { mandateDigest, parseMandate } from '../../src/wire/joint/mandate.ts'
import { parseTallyMetadata } from '../../src/wire/resources/authorization-server-metadata.ts'
import { row } from '../support/contract-row.ts'
import { MANDATE_DOCUMENT, TALLY } from '../support/joint.ts'
import { startedOnce } from '../support/started.ts'
import { accountOf, startTestTally } from '../support/tally.ts'

const tally = startedOnce(() => startTestTally())

describe('Tally for a jointly held resource', () => {
  row('tally-discovery', async () => {
    const { status, body } = await tally.request('/.well-known/agents-configuration')
    expect(status).toBe(200)
    expect(body).toMatchObject({
      ext_tally: true,
      ext_mandate_endpoint: `${TALLY}/mandate`,
      ext_withdrawal_endpoint: `${TALLY}/joint/withdrawal`,
      token_endpoint: `${TALLY}/token`,
    })
    expect(body).not.toHaveProperty('owner_endpoint')
    expect(parseTallyMetadata(body, TALLY).issuer).toBe(TALLY)
  })

  row('tally-mandate', async () => {
    const { status, body, headers } = await tally.request('/mandate/family-1')
    expect(status).toBe(200)
    expect(body).toMatchObject({ ...MANDATE_DOCUMENT, total_weight: 2 })
    // The vector of the digest: what is registered stands outside of it.
    expect(body.mandate_s256).toBe('s256:atCi-0EZoXqO1dDo-q30ueuT_hJ1D9mgB2K8YYcqRw4')
    expect(mandateDigest(parseMandate(body))).toBe(body.mandate_s256)
    expect(body.registered).toContainEqual({
      _id: 'family-1/deposit',
      name: 'Deposit box',
      type: 'https://types.example/box',
      resource_scopes: ['open'],
    })
    expect(body.summary).toContain('An agent is let in if every holder allows it.')
    expect(headers.get('cache-control')).toContain('max-age=30')
    const again = await tally.request('/mandate/family-1', {
      headers: { 'if-none-match': headers.get('etag')! },
    })
    expect([again.status, again.text]).toEqual([304, ''])
    const statusTo = async (known: string) =>
      (await tally.request('/mandate/family-1', { headers: { 'if-none-match': known } })).status
    const etag = headers.get('etag')!
    for (const known of [`W/${etag}`, `"other", ${etag}`, '*']) expect(await statusTo(known)).toBe(304)
    for (const unknown of ['"other"', etag.slice(1, -1)]) expect(await statusTo(unknown)).toBe(200)
    expect((await tally.request('/mandate/family-2')).status).toBe(404)
  })

  row('tally-jwks', async () => {
    const { status, body } = await tally.request('/jwks')
    expect(status).toBe(200)
    expect(body.keys).toHaveLength(2)
    expect(JSON.stringify(body)).not.toContain('"d"')
  })

  test('a mandate that was changed in the file is the next version, and the same one is not', async () => {
    const served = async (): Promise<string> =>
      (await tally.request('/mandate/family-1')).body.mandate_s256 as string
    const first = await served()
    const same = await startTestTally({ beside: tally })
    await same.close()
    expect(await served()).toBe(first)
    tally.rewrite(accountOf({ rule: { kind: 'any' } }))
    const changed = await startTestTally({ beside: tally })
    await changed.close()
    expect(await served()).not.toBe(first)
    expect((await tally.request('/mandate/family-1')).body.rule).toEqual({ kind: 'any', threshold: 1 })
  })

  test('it answers for its health, and tells its numbers where operators look', async () => {
    expect((await tally.request('/health')).body).toEqual({ status: 'ok' })
    const metrics = await fetch(`${tally.metricsUrl}/metrics`)
    expect(await metrics.text()).toContain('usher_database_connections{pool="calls"')
  })
})
