/**
 * Namespaces in the provisioning file: what her resource ids may begin with besides her name. contract, "What
 * the service does".
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Client } from 'pg'
import { describe, expect, it } from 'vitest'
import { stringify } from 'yaml'
import { provision } from '../../src/authority/provision.ts'
import { loadProvisionFile } from '../../src/config/provisioning/provision.ts'
import { readOwner } from '../../src/storage/authority/owners/owners.ts'
import { asOwner } from '../../src/wire/identifiers.ts'
import { faultsOf } from '../support/config-files.ts'
import { withEmptyDatabase } from '../support/postgres.ts'
import { ROOT } from '../support/repository.ts'
import { coreStand } from '../support/stands.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const database = coreStand()
const directory = temporaryFolder('namespaces')

let count = 0
const unique = (): string => `name-${++count}`
const owner = (name: string, ...namespaces: string[]) => ({ owner: name, namespaces })

function load(owners: object[]) {
  const path = join(directory, 'provision.yaml')
  writeFileSync(path, stringify({ owners }))
  return loadProvisionFile(path, false)
}
const faultsIn = (...owners: object[]) => faultsOf(() => load(owners))
const apply = (...owners: object[]) => provision(database.db, load(owners))
const namespacesOf = async (name: string): Promise<string[]> => {
  const { rows } = await database.pool.query<{ namespace: string }>(
    'SELECT namespace FROM namespaces WHERE owner = $1 ORDER BY namespace',
    [name],
  )
  return rows.map(({ namespace }) => namespace)
}

describe('A namespace of the provisioning file', () => {
  const servers = {
    resource_servers: [
      {
        client_id: 'tools',
        name: 'Tools',
        client_secret: 'a secret of sixteen or more',
        resource_uri: 'https://tools.example/mcp/alice',
      },
    ],
  }
  const resource = (id: string) => ({ id, client_id: 'tools', name: 'It', resource_scopes: ['read'] })

  it('listed for two owners is a fault that names both', () => {
    expect(faultsIn(owner('alice', 'treasury'), owner('bea', 'treasury'))).toEqual([
      'namespaces: treasury is listed for alice and for bea; it belongs to one owner.',
    ])
  })

  it('that is the name of an owner is a fault, her own name too, whichever stands first', () => {
    const fault = 'namespaces of alice: bea is the name of an owner; ids below it are hers.'
    expect(faultsIn(owner('alice', 'bea'), owner('bea'))).toEqual([fault])
    expect(faultsIn(owner('bea'), owner('alice', 'bea'))).toEqual([fault])
    expect(faultsIn(owner('alice', 'alice'))).toEqual([
      'namespaces of alice: alice is the name of an owner; ids below it are hers.',
    ])
  })

  it.each(['a/b', '', '-a', '*', 'x'.repeat(65)])('%j is refused: it is one segment of ids', name => {
    expect(faultsIn(owner('alice', name))).toEqual([expect.stringMatching(/^owners\[0\]\.namespaces\[0\]: /)])
  })

  it('twice for one owner is a fault', () => {
    expect(faultsIn(owner('alice', 'treasury', 'treasury'))).toEqual([
      'namespaces of alice: treasury is listed twice.',
    ])
  })

  it('lets resources stand below it, and below no other', () => {
    const given = (id: string) => ({ ...owner('alice', 'treasury'), ...servers, resources: [resource(id)] })
    expect(faultsIn(given('treasury/payments'))).toEqual([])
    expect(faultsIn(given('alice/portfolio'))).toEqual([])
    for (const id of ['treasury', 'treasury/', 'treasury2/payments', 'bea/portfolio', 'payments/treasury/x'])
      expect(faultsIn(given(id))).toEqual([
        'owners[0].resources[0].id: it must start with alice/ or one of her namespaces, and continue.',
      ])
  })

  it('is given once, and a start with the same file gives nothing', async () => {
    const [alice, ours] = [unique(), unique()]
    const made = { owner: alice, kind: 'namespace', item: ours, outcome: 'made' }
    expect(await apply(owner(alice, ours))).toContainEqual(made)
    expect(await apply(owner(alice, ours))).toEqual([])
    expect(await namespacesOf(alice)).toEqual([ours])
  })

  it('of an owner who is served already is given to nobody else: the start stops, naming both', async () => {
    const [alice, bea, ours] = [unique(), unique(), unique()]
    await apply(owner(alice, ours))
    await expect(apply(owner(bea, ours))).rejects.toThrow(
      `The namespace ${ours} of ${bea} is a namespace of ${alice} already`,
    )
    expect(await readOwner(database.db, asOwner(bea))).toBeUndefined()
  })

  it('never equals the name of an owner who is served, even if another file makes her', async () => {
    const [alice, bea] = [unique(), unique()]
    await apply(owner(bea))
    await expect(apply(owner(alice, bea))).rejects.toThrow(
      `The namespace ${bea} of ${alice} is the name of an owner already`,
    )
    const [carol, dora] = [unique(), unique()]
    await apply(owner(carol, dora))
    await expect(apply(owner(dora))).rejects.toThrow(
      `The owner ${dora} cannot be made: her name is a namespace of ${carol}.`,
    )
    expect(await readOwner(database.db, asOwner(dora))).toBeUndefined()
  })

  it('that two replicas give to two owners at once is given to one', async () => {
    const ours = unique()
    const names = Array.from({ length: 8 }, unique)
    const started = await Promise.allSettled(
      names.map(name => provision(database.db, [{ ...load([owner(name)])[0]!, namespaces: [ours] }])),
    )
    expect(started.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    expect((await Promise.all(names.map(namespacesOf))).flat()).toEqual([ours])
  })

  it('never takes the name of an owner who was made before there were namespaces', async () => {
    const folder = join(ROOT, 'migrations', 'authority')
    await withEmptyDatabase(async url => {
      const client = new Client({ connectionString: url })
      await client.connect()
      try {
        for (const name of readdirSync(folder).sort()) {
          if (name.endsWith('_namespaces.sql'))
            await client.query(`INSERT INTO owners (owner, tag) VALUES ('alice', 'tag')`)
          await client.query(readFileSync(join(folder, name), 'utf8'))
        }
        const { rows } = await client.query(`SELECT key, owner FROM directory WHERE kind = 'name'`)
        expect(rows).toEqual([{ key: 'alice', owner: 'alice' }])
      } finally {
        await client.end()
      }
    })
  })
})
