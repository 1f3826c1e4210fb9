/**
 * Owners that are added, suspended and removed while others are served, on a real Postgres. Contract: "Grant
 * (RPT) liveness", "Grant answer (beat 4)" (receipts are kept), "Parties" (owner's authorization server).
 */
import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { addOwner, removeOwner, setSuspended } from '../../src/authority/administration/owner-accounts.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import { readArchive } from '../../src/storage/authority/owners/archive.ts'
import { recordApproval } from '../../src/storage/authority/connections/connections.ts'
import type { Tx } from '../../src/storage/authority/database.ts'
import { consumeGrant } from '../../src/storage/authority/grants/consume.ts'
import { readGrant } from '../../src/storage/authority/grants/read.ts'
import { recordGrant } from '../../src/storage/authority/grants/issue.ts'
import { readLedger } from '../../src/storage/authority/ledger/ledger.ts'
import {
  listOwnerLives,
  readOwnerLife,
  resumeOwner,
  suspendOwner,
} from '../../src/storage/authority/owners/owner-lives.ts'
import { insertDeviceKey } from '../../src/storage/authority/credentials/device-keys.ts'
import { insertNamespace, readOwner } from '../../src/storage/authority/owners/owners.ts'
import { beginRemoval, openDeleting } from '../../src/storage/authority/owners/removals.ts'
import { registerResourceServer } from '../../src/storage/authority/registry/registrations.ts'
import { readStanding } from '../../src/storage/authority/negotiations/standing.ts'
import { asOwner, type Owner } from '../../src/wire/identifiers.ts'
import { PATIENT, runtimeRole } from '../support/postgres.ts'
import * as seed from '../support/seed.ts'
import { coreStand } from '../support/stands.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const ACTOR = { kind: 'authority' } as const

const database = coreStand({ poolMax: 64, ...PATIENT })
const archives = temporaryFolder('archives')

const inTx = <T>(work: (tx: Tx) => Promise<T>) => inTransaction(database.db, work)
const add = (owner: Owner) => inTx(tx => addOwner(tx, owner))
const consume = (owner: Owner, rpt: Buffer) =>
  consumeGrant(database.calls, owner, { client_id: seed.CLIENT_ID }, rpt)
const issue = async (owner: Owner, handle: ReturnType<typeof seed.name>, generation: number) => {
  const rpt = seed.bytes()
  return { rpt, made: await recordGrant(database.db, seed.grantRow(owner, handle, generation, rpt), []) }
}
const remove = async (owner: Owner) =>
  (await removeOwner(database, { owner, actor: ACTOR, archives })).finish()

async function connected() {
  const owner = await seed.seedOwner(database.db, { ask_me: true })
  const handle = seed.name('jkt:')
  const generation = await seed.seedConnection(database.db, owner, handle)
  return { owner, handle, generation }
}

/** How many rows of each table are this owner's, without tables that have none. */
async function rowsOf(owner: Owner): Promise<Record<string, number>> {
  const { rows: tables } = await database.pool.query<{ name: string }>(
    `SELECT table_name AS name FROM information_schema.columns
     WHERE table_schema = current_schema() AND column_name = 'owner' ORDER BY 1`,
  )
  const counts = await Promise.all(
    tables.map(async ({ name }) => {
      const { rows } = await database.pool.query<{ n: number }>(
        `SELECT count(*)::int AS n FROM ${name} WHERE owner = $1`,
        [owner],
      )
      return [name, rows[0]!.n] as const
    }),
  )
  return Object.fromEntries(counts.filter(([, n]) => n > 0))
}

describe('Adding an owner', () => {
  it('serves her at once, without a credential', async () => {
    const owner = seed.name('new-')
    expect(await add(owner)).toMatchObject({ owner, state: 'active', enrolled: false, recovery_at: null })
    expect(await readOwner(database.db, owner)).toMatchObject({ owner })
  })

  it('twice at once makes one, and the other is told', async () => {
    await seed.inRounds(20, 3, async () => {
      const owner = seed.name('new-')
      const outcomes = await Promise.allSettled(Array.from({ length: 8 }, () => add(owner)))
      const refused = outcomes.flatMap(one => (one.status === 'rejected' ? [one.reason as unknown] : []))
      expect(refused).toHaveLength(7)
      for (const reason of refused) expect(reason).toMatchObject({ code: 'conflict' })
    })
  })

  it('is refused if her name is a namespace of another owner', async () => {
    const owner = await seed.seedOwner(database.db)
    const name = seed.name('ns-')
    await inTx(tx => insertNamespace(tx, owner, name))
    await expect(add(name)).rejects.toMatchObject({
      code: 'conflict',
      detail: expect.stringContaining(`a namespace of ${owner}`) as string,
    })
    expect(await readOwnerLife(database.db, name)).toBeUndefined()
  })
})

describe('Suspending an owner', () => {
  it('ends every grant, and none is written until she is resumed', async () => {
    const { owner, handle, generation } = await connected()
    const before = await issue(owner, handle, generation)
    expect(before.made).toBe(true)
    expect(await inTx(tx => suspendOwner(tx, owner))).toBe(true)
    expect(await consume(owner, before.rpt)).toBeUndefined()
    expect((await readGrant(database.calls, owner, seed.CLIENT_ID, before.rpt))?.grant).toMatchObject({
      connected: true,
      current: false,
    })
    expect((await issue(owner, handle, generation)).made).toBe(false)
    expect((await issue(owner, handle, generation + 1)).made).toBe(false)
    expect(await inTx(tx => resumeOwner(tx, owner))).toBe(true)
    expect(await consume(owner, before.rpt)).toBeUndefined()
    const after = await issue(owner, handle, generation + 1)
    expect(after.made).toBe(true)
    expect(await consume(owner, after.rpt)).toBeDefined()
  })

  it('an agent that she lets in meanwhile gets no grant', async () => {
    const { owner } = await connected()
    await inTx(tx => suspendOwner(tx, owner))
    const handle = seed.name('jkt:')
    const generation = await seed.seedConnection(database.db, owner, handle)
    expect((await issue(owner, handle, generation)).made).toBe(false)
  })

  it('keeps what she approved, so that resuming asks her nothing anew', async () => {
    const { owner, handle, generation } = await connected()
    await inTx(tx => recordApproval(tx, { owner, handle, tier_id: seed.TIER, generation }))
    await inTx(tx => suspendOwner(tx, owner))
    await inTx(tx => resumeOwner(tx, owner))
    const of = { handle, tier_id: seed.TIER, windowSeconds: 60, countTo: undefined }
    expect(
      await readStanding(database.db, owner, { ...of, operator: undefined, membership: undefined }),
    ).toMatchObject({
      status: 'active',
      generation: generation + 1,
      approvedAtTier: true,
    })
  })

  it('while grants are issued leaves none that can be used', async () => {
    await seed.inRounds(20, 3, async () => {
      const { owner, handle, generation } = await connected()
      const issued = seed.callers(8, () => issue(owner, handle, generation))
      await inTx(tx => suspendOwner(tx, owner))
      for (const { rpt } of await issued) expect(await consume(owner, rpt)).toBeUndefined()
    })
  })

  it('is told to her by her ledger, and is refused if it is so already', async () => {
    const { owner } = await connected()
    const actor = { kind: 'authority', admin: 'olga' } as const
    await inTx(tx => setSuspended(tx, owner, { suspended: true, actor }))
    await expect(inTx(tx => setSuspended(tx, owner, { suspended: true, actor }))).rejects.toMatchObject({
      code: 'conflict',
    })
    await inTx(tx => setSuspended(tx, owner, { suspended: false, actor }))
    const entries = await readLedger(database.db, owner, { after: 0, limit: 10 })
    expect(entries).toMatchObject([
      { kind: 'suspended', data: { by: 'authority', actor } },
      { kind: 'resumed', data: { by: 'authority', actor } },
    ])
  })
})

describe('Removing an owner', () => {
  it('leaves nothing of hers but that she was, and her archive, for its user alone', async () => {
    const { owner, handle, generation } = await connected()
    await inTx(tx =>
      insertDeviceKey(tx, { owner, kid: seed.name('kid-'), jwk: { kty: 'OKP' }, name: 'laptop' }),
    )
    await issue(owner, handle, generation)
    const { archive, rows } = await remove(owner)
    expect(rows).toBeGreaterThan(5)
    expect(await rowsOf(owner)).toEqual({ removals: 1 })
    expect(await readOwnerLife(database.db, owner)).toMatchObject({ state: 'removed', enrolled: false })
    expect(statSync(archive!).mode & 0o777).toBe(0o600)
    const lines = readFileSync(archive!, 'utf8')
      .trimEnd()
      .split('\n')
      .map(one => JSON.parse(one) as { part: string })
    const parts = new Set(lines.map(({ part }) => part))
    for (const part of [
      'owner',
      'device_keys',
      'tiers',
      'terms_versions',
      'connections',
      'ledger',
      'receipts',
    ])
      expect(parts).toContain(part)
    expect(readdirSync(archives).filter(name => name.startsWith('.'))).toEqual([])
  })

  it('never gives her name again, as an owner’s or as a namespace', async () => {
    const owner = await seed.seedOwner(database.db)
    const namespace = seed.name('ns-')
    await inTx(tx => insertNamespace(tx, owner, namespace))
    await remove(owner)
    const never = expect.stringContaining('never given again') as string
    await expect(add(owner)).rejects.toMatchObject({ code: 'conflict', detail: never })
    await expect(add(namespace)).rejects.toMatchObject({ code: 'conflict', detail: never })
    const other = await seed.seedOwner(database.db)
    expect(await inTx(tx => insertNamespace(tx, other, owner))).toBe(asOwner(''))
  })

  it('gives her name in no other case either: paths are folded on their way', async () => {
    const owner = seed.name('Rosa-')
    await add(owner)
    const inOtherCase = asOwner(owner.toUpperCase())
    await remove(owner)
    await expect(add(inOtherCase)).rejects.toMatchObject({ code: 'conflict' })
    const other = await seed.seedOwner(database.db)
    expect(await inTx(tx => insertNamespace(tx, other, inOtherCase))).toBe(asOwner(''))
  })

  it('is refused, and nothing ends, if no archive can be written', async () => {
    const owner = await seed.seedOwner(database.db)
    const file = join(archives, 'a-file')
    writeFileSync(file, '')
    const asked = { owner, actor: ACTOR, archives: join(file, 'folder') }
    await expect(removeOwner(database, asked)).rejects.toMatchObject({
      code: 'conflict',
      detail: expect.stringContaining('may write to (ENOTDIR)') as string,
    })
    expect(await readOwnerLife(database.db, owner)).toMatchObject({ state: 'active' })
  })

  it('takes away what a killed removal had written of her archive, and of nobody else’s', async () => {
    const owner = await seed.seedOwner(database.db)
    const partOf = (name: string) => `.${name}-20260302T093000000Z.ndjson.${crypto.randomUUID()}`
    const [hers, others] = [partOf(owner), partOf(`${owner}-2`)]
    for (const name of [hers, others]) writeFileSync(join(archives, name), 'half')
    await inTx(tx => beginRemoval(tx, owner, ACTOR))
    await remove(owner)
    expect(readdirSync(archives).filter(name => name.startsWith('.'))).toEqual([others])
    rmSync(join(archives, others))
  })

  it('leaves no resource server that registers meanwhile', async () => {
    const resource_uri = 'https://late.example/mcp'
    await seed.inRounds(10, 3, async () => {
      const owner = await seed.seedOwner(database.db)
      const register = () => inTx(tx => registerResourceServer(tx, { owner, resource_uri, name: 'Late' }))
      const [removed, ...registered] = await Promise.allSettled([remove(owner), register(), register()])
      expect(removed.status).toBe('fulfilled')
      for (const one of registered) expect(one.status).toBe('fulfilled')
      expect(await register()).toEqual({ outcome: 'gone' })
      expect(await rowsOf(owner)).toEqual({ removals: 1 })
    })
  })

  it('while she is added again gives the name to nobody', async () => {
    await seed.inRounds(10, 3, async () => {
      const owner = await seed.seedOwner(database.db)
      const [removed, added] = await Promise.allSettled([remove(owner), add(owner)])
      expect(removed.status).toBe('fulfilled')
      expect(added.status).toBe('rejected')
      expect(await readOwner(database.db, owner)).toBeUndefined()
    })
  })

  it('while a grant is being consumed lets nothing pass once it has returned', async () => {
    await seed.inRounds(10, 2, async () => {
      const { owner, handle, generation } = await connected()
      const grants = await Promise.all(Array.from({ length: 6 }, () => issue(owner, handle, generation)))
      let returned = false
      const late: boolean[] = []
      const consuming = Promise.all(
        grants.map(async ({ rpt }) => {
          const before = returned
          late.push((await consume(owner, rpt)) !== undefined && before)
        }),
      )
      await remove(owner).then(() => {
        returned = true
      })
      for (const { rpt } of grants) expect(await consume(owner, rpt)).toBeUndefined()
      await consuming
      expect(late).not.toContain(true)
      expect(await rowsOf(owner)).toEqual({ removals: 1 })
    })
  })

  it('by several at once is done by one; the others are told', async () => {
    const owner = await seed.seedOwner(database.db)
    const outcomes = await Promise.allSettled([remove(owner), remove(owner), remove(owner)])
    expect(outcomes.filter(one => one.status === 'fulfilled')).toHaveLength(1)
    for (const one of outcomes)
      if (one.status === 'rejected') expect(one.reason).toMatchObject({ code: 'conflict' })
  })

  it('that was broken off after her access ended is gone on with', async () => {
    const owner = await seed.seedOwner(database.db)
    await inTx(tx => beginRemoval(tx, owner, ACTOR))
    expect(await readOwnerLife(database.db, owner)).toMatchObject({ state: 'removing' })
    expect((await remove(owner)).archive).toContain(owner)
    expect(await rowsOf(owner)).toEqual({ removals: 1 })
    await expect(remove(owner)).rejects.toMatchObject({ code: 'conflict' })
  })

  it('deletes nothing before her archive stands', async () => {
    const owner = await seed.seedOwner(database.db)
    await inTx(tx => beginRemoval(tx, owner, ACTOR))
    const deleting = await openDeleting(database.url, owner)
    if (typeof deleting === 'string') throw new Error(deleting)
    try {
      await expect(deleting.deleteRows()).rejects.toThrow(/archive/)
    } finally {
      await deleting.close()
    }
    expect(await rowsOf(owner)).toHaveProperty('tiers')
  })

  it('is refused, and nothing ends, if the log-in may not delete receipts', async () => {
    const owner = await seed.seedOwner(database.db)
    const url = new URL(database.url)
    url.searchParams.set('options', `-c role=${runtimeRole(database.url)}`)
    const asServer = { ofNobody: database.db, url: url.href }
    await expect(removeOwner(asServer, { owner, actor: ACTOR, archives })).rejects.toMatchObject({
      code: 'conflict',
      detail: expect.stringContaining('usher authority owner remove') as string,
    })
    expect(await readOwnerLife(database.db, owner)).toMatchObject({ state: 'active' })
  })

  it('of somebody who was never served is refused', async () => {
    await expect(remove(seed.name('nobody-'))).rejects.toMatchObject({ code: 'not_found' })
  })
})

describe('An archive', () => {
  it('read in pages of one is what it is in one page, and holds no secret', async () => {
    const { owner, handle, generation } = await connected()
    for (let one = 0; one < 3; one++) await issue(owner, handle, generation)
    await inTx(tx => setSuspended(tx, owner, { suspended: true, actor: ACTOR }))
    const whole = (await readArchive(database.db, owner, { limit: 1_000 }))!
    expect(whole.next).toBeNull()
    const lines: unknown[] = []
    for (let after: string | undefined; ;) {
      const page = (await readArchive(database.db, owner, { after, limit: 1 }))!
      lines.push(...page.lines)
      if (page.next === null) break
      after = page.next
    }
    expect(lines).toEqual(whole.lines)
    expect(whole.lines.filter(({ part }) => part === 'receipts').map(({ row }) => row['seq'])).toEqual([
      1, 2, 3,
    ])
    expect(JSON.stringify(whole.lines)).not.toMatch(/secret_sha256|code_sha256|rpt_sha256|"token"/)
  })

  it.each(['x', 'W10', Buffer.from('["ledger",["x"]]').toString('base64url')])(
    'is not read on from %s, which no page named',
    async after => {
      const owner = await seed.seedOwner(database.db)
      expect(await readArchive(database.db, owner, { after, limit: 1 })).toBeUndefined()
    },
  )
})

it('owners are listed by name, those who were removed too', async () => {
  const names = [seed.name('list-'), seed.name('list-')].sort()
  for (const name of names) await add(name)
  await remove(names[0]!)
  const page = await listOwnerLives(database.db, { after: 'list-', limit: 2 })
  expect(page.map(({ owner, state }) => [owner, state])).toEqual([
    [names[0], 'removed'],
    [names[1], 'active'],
  ])
})
