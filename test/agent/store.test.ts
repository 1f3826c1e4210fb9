/** contract, "Grant answer (beat 4)": both sides hold the receipt; the agent's side, in files. */
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  fileStore,
  memoryStore,
  type AgentStore,
  type Grant,
  type KeptReceipt,
} from '../../src/agent/index.ts'

let directory: string
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'usher-store-'))
})
afterEach(() => rm(directory, { recursive: true }))

const grant = (jti: string, resource = 'https://tools.example/mcp'): Grant => ({
  access_token: 'a.b.c',
  jti,
  resource,
  as_uri: 'https://as.example',
  family: 'fam_1',
  permissions: [],
  exp: 2,
  contract: 's256:x',
  single_use: false,
})
const receipt = (rpt: string, at: number): KeptReceipt => ({
  receipt: 'a.b.c',
  family: 'fam_1',
  contract: 's256:x',
  owner: 'alice',
  as_uri: 'https://as.example',
  resource: 'https://tools.example/mcp',
  tool: 't',
  template_id: 'alice/reading/v1',
  terms_uri: 'https://as.example/terms/alice/reading/v1',
  rpt,
  at,
})

const stores: [string, () => AgentStore][] = [
  ['memory', memoryStore],
  ['files', () => fileStore(join(directory, 'agent'))],
]
describe.each(stores)('a store in %s', (_where, open) => {
  it('answers what was kept, and nothing if nothing was kept', async () => {
    const store = open()
    expect([
      await store.receipts(),
      await store.grants('https://x.example'),
      await store.need('r', 't'),
    ]).toEqual([[], [], undefined])
    await store.keepReceipt(receipt('rpt_2', 20))
    await store.keepReceipt(receipt('rpt_3', 30))
    await store.keepNeed({ resource: 'r', tool: 't', resource_id: 'alice/portfolio', scopes: ['read'] })
    expect((await store.receipts()).map(one => one.rpt)).toEqual(['rpt_2', 'rpt_3'])
    expect(await store.need('r', 't')).toMatchObject({ resource_id: 'alice/portfolio' })
    expect(await store.need('r', 'other')).toBeUndefined()
  })

  it('keeps grants by resource, until they are dropped', async () => {
    const store = open()
    await store.keepGrant(grant('rpt_1'))
    await store.keepGrant(grant('rpt_2', 'https://other.example/mcp'))
    expect(await store.grants('https://tools.example/mcp')).toEqual([grant('rpt_1')])
    await store.dropGrant(grant('rpt_1'))
    await store.dropGrant(grant('rpt_1'))
    expect(await store.grants('https://tools.example/mcp')).toEqual([])
  })
})

describe('a store in files', () => {
  it('is readable by its user alone, and nothing in a name reaches outside', async () => {
    const store = fileStore(join(directory, 'agent'))
    await store.keepGrant(grant('../../../etc/passwd'))
    const [name] = await readdir(join(directory, 'agent', 'grants'))
    const path = join(directory, 'agent', 'grants', name!)
    expect((await stat(path)).mode & 0o777).toBe(0o600)
    expect((await stat(join(directory, 'agent', 'grants'))).mode & 0o777).toBe(0o700)
    expect(JSON.parse(await readFile(path, 'utf8'))).toMatchObject({ jti: '../../../etc/passwd' })
  })

  it('outlives the process, and passes over a file that was spoilt', async () => {
    await fileStore(directory).keepReceipt(receipt('rpt_2', 20))
    await fileStore(directory).keepReceipt(receipt('rpt_1', 10))
    await writeFile(join(directory, 'receipts', 'spoilt.json'), '{')
    expect((await fileStore(directory).receipts()).map(one => one.rpt)).toEqual(['rpt_1', 'rpt_2'])
  })

  it('never shows a file half written', async () => {
    const store = fileStore(directory)
    const writes = Array.from({ length: 20 }, () => store.keepGrant(grant('rpt_1')))
    const reads = Array.from({ length: 20 }, () => store.grants('https://tools.example/mcp'))
    await Promise.all(writes)
    for (const seen of await Promise.all(reads)) expect(seen.every(one => one.jti === 'rpt_1')).toBe(true)
    expect(await readdir(join(directory, 'grants'))).toHaveLength(1)
  })
})
