/**
 * Contract, "Policy vocabulary and tiers" (the owner activated it herself); our claim and disclaim of an
 * operator.
 */
import { describe, expect, it } from 'vitest'
import { newKey, startOperator } from '../support/operators.ts'
import { testAgent } from '../support/test-agent.ts'
import { authorityStand } from '../support/stands.ts'
import { startedOnce } from '../support/started.ts'

const operator = startedOnce(() => startOperator({ name: 'Her own company' }))
const authority = authorityStand({ environment: { UMA_DEV_LOOPBACK: 'true' } })

const post = (verb: 'claim' | 'disclaim', json: unknown) =>
  authority.call(authority.alice, { method: 'POST', target: `/owner/operators/${verb}`, json })
const mine = async () =>
  (
    (await authority.call(authority.alice, { target: '/owner/operators' })).body as {
      origin: string
      mine: boolean
    }[]
  ).find(one => one.origin === operator.origin)?.mine

describe('an operator that the owner claims', () => {
  it('makes first-party only those connected agents whose keys its directory lists', async () => {
    const [listed, claiming] = [newKey(), newKey()]
    operator.publish(listed)
    const { client_id } = operator
    const hers = testAgent(authority, { key: listed, client_id })
    const other = testAgent(authority, { key: claiming, client_id })
    await hers.granted()
    await other.granted()
    const claimed = await post('claim', { origin: operator.origin })
    expect(claimed.body).toEqual({ origin: operator.origin, mine: true, first_party: [hers.handle] })
    expect(await mine()).toBe(true)
    expect((await post('claim', { origin: operator.origin })).body.first_party).toEqual([])
  })

  it('the mark can be taken back, once it was given; the ledger tells both', async () => {
    expect((await post('disclaim', { origin: operator.origin })).body).toEqual({
      origin: operator.origin,
      mine: false,
    })
    expect(await mine()).toBe(false)
    expect((await post('disclaim', { origin: 'https://nobody.example' })).status).toBe(404)
    const { entries } = (await authority.call(authority.alice, { target: '/owner/ledger?limit=1000' }))
      .body as {
      entries: { kind: string }[]
    }
    const actor = { kind: 'owner', credential: 'device_key', kid: authority.alice.key.thumbprint }
    const told = { operator: operator.origin, by: 'owner', actor }
    expect(entries.filter(({ kind }) => kind.includes('claimed'))).toMatchObject([
      { kind: 'claimed', ...told },
      { kind: 'claimed', ...told },
      { kind: 'disclaimed', ...told },
    ])
  })

  it.each([
    ['no origin', {}],
    ['a path', { origin: 'https://operator.example/x' }],
    ['plain http', { origin: 'http://operator.example' }],
    ['another spelling', { origin: 'https://OPERATOR.example' }],
    ['an unknown member', { origin: 'https://operator.example', by: 'me' }],
  ])('%s is 400', async (_, json) => {
    expect([(await post('claim', json)).status, (await post('disclaim', json)).status]).toEqual([400, 400])
  })
})
