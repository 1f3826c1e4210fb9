/**
 * What a provisioning file would change: contract, "Policy vocabulary and tiers" (what she changed is hers),
 * on a real authority's database.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse, stringify } from 'yaml'
import { expect, it } from 'vitest'
import { removeOwner } from '../../src/authority/administration/owner-accounts.ts'
import { planOf } from '../../src/authority/administration/plan.ts'
import { readAuthorityConfig } from '../../src/config.ts'
import { recordApproval } from '../../src/storage/authority/connections/connections.ts'
import { readOwner } from '../../src/storage/authority/owners/owners.ts'
import { deleteTier, insertTier } from '../../src/storage/authority/policies/tiers.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import { asHandle, asOwner } from '../../src/wire/identifiers.ts'
import type { ProvisionDocument } from '../support/authority.ts'
import { seedConnection, tierOf } from '../support/seed.ts'
import { authorityStand } from '../support/stands.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const authority = authorityStand({ owners: ['alice', 'carl'] })
const directory = temporaryFolder('plan')

let files = 0
/** Of a file that differs from the one that was applied. */
async function plan(change: (document: ProvisionDocument) => unknown = () => undefined) {
  const document = parse(
    readFileSync(authority.environment['UMA_AS_PROVISION']!, 'utf8'),
  ) as ProvisionDocument
  change(document)
  const file = join(directory, `${++files}.yaml`)
  writeFileSync(file, stringify(document))
  const { owners } = readAuthorityConfig({ ...authority.environment, UMA_AS_PROVISION: file })
  return planOf(authority.database.db, owners)
}

it('a file that was applied as it stands changes nothing', async () => {
  expect(await plan()).toEqual([])
})

it('what is new is made, and looking at it makes nothing', async () => {
  const planned = await plan(({ owners }) => {
    owners[0]!.tiers[0]!.resources = []
    owners[0]!.tiers.push({ ...owners[0]!.tiers[0]!, id: 'more' })
    owners.push({
      ...owners[0]!,
      owner: asOwner('dora'),
      device_keys: [],
      resources: [],
      tiers: [],
      resource_servers: [],
    })
  })
  expect(planned).toContainEqual({ owner: 'alice', kind: 'tier', item: 'more', plan: 'made' })
  expect(planned).toContainEqual({ owner: 'dora', kind: 'owner', item: 'dora', plan: 'made' })
  expect(planned).toContainEqual(
    expect.objectContaining({
      kind: 'tier',
      item: 'reading',
      plan: 'differs',
      because: expect.stringMatching(/^resources:/),
    }),
  )
  expect(await readOwner(authority.database.db, asOwner('dora'))).toBeUndefined()
})

it('what is the operator’s to say is shown as a change, by its members with both values but of a secret, and looking changes nothing', async () => {
  const planned = await plan(({ owners }) => {
    const [server] = owners[0]!.resource_servers
    Object.assign(server!, { client_secret: 'another secret of the file', name: 'Tools, renamed' })
    owners[0]!.resources[0]!.name = 'Portfolio, renamed'
  })
  const changes = { owner: 'alice', plan: 'changed' }
  const told = (name: string, others = '') =>
    expect.stringMatching(new RegExp(`^name \\("[^"]+" → "${name}"\\)${others}$`)) as string
  expect(planned).toEqual([
    { ...changes, kind: 'resource_server', item: 'demo-tools', because: told('Tools, renamed', ', secret') },
    { ...changes, kind: 'resource', item: 'alice/portfolio', because: told('Portfolio, renamed') },
  ])
  expect(await plan()).toEqual([])
})

it('what she changed or removed is left alone, and no value is told', async () => {
  const body = { method: 'PUT', target: '/owner/policies/statements', json: { name: 'Mine' } } as const
  expect((await authority.call(authority.alice, body)).status).toBe(200)
  await authority.call(authority.alice, { method: 'DELETE', target: '/owner/policies/trading' })
  const planned = await plan(({ owners }) => {
    owners[0]!.resources[1]!.resource_scopes = ['read', 'list']
  })
  expect(planned).toEqual([
    {
      owner: 'alice',
      kind: 'resource',
      item: 'alice/statements',
      plan: 'differs',
      because: 'resource_scopes: changed since, here or in the file',
    },
    {
      owner: 'alice',
      kind: 'tier',
      item: 'statements',
      plan: 'differs',
      because: 'name: changed since, here or in the file; a tier is hers to change (usher owner tier apply)',
    },
    { owner: 'alice', kind: 'tier', item: 'trading', plan: 'differs', because: 'it was removed since' },
  ])
})

it('a tier that does not ask is made with a warning: how many of her agents may use it', async () => {
  const { db } = authority.database
  const alice = asOwner('alice')
  const [everywhere, once, sibling] = ['everywhere', 'once', 'sibling'].map(name => asHandle(`jkt:${name}`))
  await seedConnection(db, alice, everywhere!)
  await seedConnection(db, alice, once!, { admits: 'tier' })
  await seedConnection(db, alice, sibling!, { introduced_by: once! })
  const made = async (owner: string) => {
    const planned = await plan(({ owners }) => {
      const entry = owners.find(one => one.owner === owner)!
      const add = (id: string, more: object): void => {
        entry.resources.push({ ...entry.resources[0]!, id: `${owner}/${id}` })
        entry.tiers.push({ ...entry.tiers[0]!, id, resources: [`${owner}/${id}`], ...more })
      }
      add('letters', {})
      add('sending', { ask_me: true })
      add('asks-first', { rules: [{ when: ['standing.first_at_tier'], then: 'ask' }] })
    })
    return planned.filter(one => one.kind === 'tier' && one.plan === 'made')
  }
  const line = { owner: 'alice', kind: 'tier', plan: 'made' }
  const because = '1 agent with a connection to her may use it without asking her'
  expect(await made('alice')).toEqual([
    { ...line, item: 'letters', because },
    { ...line, item: 'sending' },
    { ...line, item: 'asks-first' },
  ])
  expect((await made('carl')).map(one => one.because)).toEqual([undefined, undefined, undefined])
})

it('a tier of an id that she deleted before is made with a warning of those who had something there', async () => {
  const { db } = authority.database
  const carl = asOwner('carl')
  const handle = asHandle('jkt:approved')
  const generation = await seedConnection(db, carl, handle)
  await seedConnection(db, carl, asHandle('jkt:other'))
  await inTransaction(db, async tx => {
    const earlier = { ...tierOf(carl, true), tier_id: 'sending', resources: [] }
    expect(await insertTier(tx, earlier)).toBe('added')
    await recordApproval(tx, { owner: carl, handle, tier_id: 'sending', generation })
    expect((await deleteTier(tx, carl, 'sending', undefined)).outcome).toBe('deleted')
  })
  const planned = await plan(({ owners }) => {
    const entry = owners.find(one => one.owner === 'carl')!
    const more: object = { ask_me: true, rules: [{ when: ['standing.approved_at_tier'], then: 'auto' }] }
    entry.resources.push({ ...entry.resources[0]!, id: 'carl/sending' })
    entry.tiers.push({ ...entry.tiers[0]!, id: 'sending', resources: ['carl/sending'], ...more })
  })
  const counts = 'what stands of an earlier tier of this id counts for 1 of them'
  const because = `1 agent with a connection to her may use it without asking her; ${counts}`
  expect(planned.filter(one => one.kind === 'tier' && one.plan === 'made')).toEqual([
    { owner: 'carl', kind: 'tier', plan: 'made', item: 'sending', because },
  ])
})

it('what the file may not do is refused with the sentence of a start', async () => {
  const planned = await plan(document => {
    const [alice] = document.owners
    document.owners = [{ ...alice!, owner: asOwner('eve'), resources: [], tiers: [], resource_servers: [] }]
  })
  const because = expect.stringContaining('is already enrolled') as string
  expect(planned).toEqual([{ owner: 'eve', kind: 'owner', item: 'eve', plan: 'refused', because }])
})

it('an owner who was removed is skipped, and stays so', async () => {
  const carl = asOwner('carl')
  const removal = await removeOwner(authority.database, {
    owner: carl,
    actor: { kind: 'authority' },
    archives: directory,
  })
  await removal.finish()
  expect(await plan()).toContainEqual(
    expect.objectContaining({
      owner: 'carl',
      kind: 'owner',
      plan: 'skipped',
      because: expect.stringContaining('removed'),
    }),
  )
  expect(await readOwner(authority.database.db, carl)).toBeUndefined()
})
