/**
 * Resource ids below a namespace listed for their owner, on the wire: contract, "Registry materialization"
 * and "Protection API" (`/perm`).
 */
import { beforeAll, describe, expect, it } from 'vitest'
import { insertNamespace } from '../../src/storage/authority/owners/owners.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import { asOwner } from '../../src/wire/identifiers.ts'
import { ISSUER } from '../support/authority.ts'
import { listed, sourcesOf, type Sources } from '../support/registry.ts'
import { startResourceServer } from '../support/resource-server.ts'
import { authorityStand } from '../support/stands.ts'
import { startedOnce } from '../support/started.ts'

const authority = authorityStand({
  owners: ['alice', 'bea'],
  environment: { UMA_DEV_LOOPBACK: 'true' },
})
const tools = startedOnce(() => startResourceServer(ISSUER))
const give = (owner: string, namespace: string) =>
  inTransaction(authority.database.db, tx => insertNamespace(tx, asOwner(owner), namespace))

let sources: Sources
beforeAll(() => {
  sources = sourcesOf(authority, tools)
})

describe('Resource ids begin with `<owner>/` or a namespace listed for her', () => {
  const below = (name: string) => listed('x', { _id: `${name}/payments` })
  const perm = async (source: string, resource_id: string) => {
    const reply = await authority.request('POST', '/perm', {
      headers: {
        authorization: `Bearer ${await tools.pat(authority, source)}`,
        'content-type': 'application/json',
      },
      body: JSON.stringify({ resource_id, resource_scopes: ['read'] }),
    })
    return [reply.status, reply.body.error]
  }

  it('a listing may name one below it, which `/perm` then gives a ticket for', async () => {
    await give('alice', 'treasury')
    const name = await sources.published([listed('mine'), below('treasury')])
    expect(await sources.state(name)).toMatchObject({ fault: null })
    const ids = (await sources.resources()).map(({ _id }) => _id)
    expect(ids).toEqual(expect.arrayContaining(['alice/mine', 'treasury/payments']))
    expect(await perm(name, 'treasury/payments')).toEqual([201, undefined])
    expect(await perm(name, 'treasury/other')).toEqual([400, 'invalid_resource_id'])
  })

  it.each([
    ['that is another owner’s', 'vault'],
    ['that is nobody’s', 'nowhere'],
    ['that is the name of another owner', 'bea'],
  ])('a listing that names one below a namespace %s is refused as a whole', async (_whose, namespace) => {
    await give('bea', 'vault')
    const id = `good-${namespace}`
    const name = await sources.published([listed(id), below(namespace)], {})
    expect(await sources.state(name)).toMatchObject({ landed_at: null, fault: 'listing_malformed' })
    expect(await sources.resource(id)).toBeUndefined()
    expect(await perm(name, `${namespace}/payments`)).toEqual([400, 'invalid_resource_id'])
  })
})
