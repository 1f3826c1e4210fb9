/** What of the log is served: docs/choices.md, "Checkpoints of the ledger". */
import { sql } from 'kysely'
import { beforeAll, describe, expect, it } from 'vitest'
import { proveConsistency } from '../../src/authority/ledger/consistency.ts'
import { ledgerLeaf } from '../../src/rules/ledger/ledger-leaf.ts'
import {
  appendLeaves,
  hashesIn,
  provesConsistency,
  rootOf,
  type TreeHead,
} from '../../src/rules/ledger/merkle.ts'
import { appendLedgerAll } from '../../src/storage/authority/ledger/ledger.ts'
import { decodeBase64url } from '../../src/wire/encoding.ts'
import { asHandle } from '../../src/wire/identifiers.ts'
import { originBase, verifyCheckpoint } from '../../src/wire/ledger/checkpoint.ts'
import { encodeTileNumber } from '../../src/wire/ledger/tile-path.ts'
import { ISSUER, type TestAuthority, type TestOwner } from '../support/authority.ts'
import { withLogKeys } from '../support/log-keys.ts'
import { authorityStand } from '../support/stands.ts'
import { testAgent } from '../support/test-agent.ts'
import { until } from '../support/until.ts'

const log = withLogKeys()
const authority = authorityStand({ environment: log.environment, owners: ['alice', 'bob'] })
const without = authorityStand()

const append = ({ database }: TestAuthority, { owner }: TestOwner, count: number) =>
  appendLedgerAll(
    database.db,
    owner,
    Array.from({ length: count }, (_, n) => ({
      kind: 'approved' as const,
      ...(n % 3 === 0 ? {} : { handle: asHandle(`jkt:${n % 3}`) }),
      data: { n, prev: 'her own', text: 'é "quoted" 😀' },
    })),
  )

const get = (owner: TestOwner, target: string) => authority.call(owner, { target })
const tagOf = async ({ owner }: TestOwner): Promise<string> => {
  const { rows } = await sql<{ tag: string }>`SELECT tag FROM owners WHERE owner = ${owner}`.execute(
    authority.database.db,
  )
  return rows[0]!.tag
}
const fetchMetrics = async () => ({ text: await (await fetch(`${authority.metricsUrl}/metrics`)).text() })
/** Her checkpoint, verified. As if the last one were two seconds old. */
async function checkpointOf(owner: TestOwner) {
  await sql`UPDATE ledger_checkpoints SET signed_at = signed_at - interval '2 seconds'
    WHERE owner = ${owner.owner}`.execute(authority.database.db)
  const { status, text, headers } = await get(owner, '/owner/ledger/checkpoint')
  expect(status).toBe(200)
  expect(headers.get('content-type')).toBe('text/plain; charset=utf-8')
  expect(headers.get('cache-control')).toBe('no-store')
  return verifyCheckpoint(text, {
    origin: originBase(ISSUER) + (await tagOf(owner)),
    keys: log.keys.slice(0, 1),
  })
}

/** The bytes, which `Reply` has as text: asked again, as they are. */
async function tile(owner: TestOwner, path: string): Promise<Buffer> {
  const { url, method, headers } = authority.prepare(owner, { target: `/owner/ledger/tile/${path}` })
  const answer = await fetch(url, { method, headers })
  expect([path, answer.status, answer.headers.get('content-type')]).toEqual([
    path,
    200,
    'application/octet-stream',
  ])
  // Its path has no origin: after a restore it has other hashes.
  expect(answer.headers.get('cache-control')).toBe('no-store')
  return Buffer.from(await answer.arrayBuffer())
}

/** All entries of her ledger with their bodies. */
async function entriesOf(owner: TestOwner) {
  const entries: Record<string, never>[] = []
  for (let after: number | null = 0; after !== null;) {
    const { status, body } = await get(owner, `/owner/ledger?bodies=true&limit=200&after=${after}`)
    expect(status).toBe(200)
    entries.push(...body.entries)
    after = body.next
  }
  return entries
}

describe("An owner's ledger, checked by what is served alone", () => {
  it('is signed soon after each entry, though nobody asks', async () => {
    const { alice, database } = authority
    const signed = async () => {
      const { rows } = await sql<{ size: number; ledger: number }>`
        SELECT c.size, h.ledger FROM ledger_checkpoints c JOIN heads h USING (owner)
        WHERE owner = ${alice.owner}`.execute(database.db)
      return rows[0]
    }
    let before = 0
    for (let n = 0; n < 2; n++) {
      await testAgent(authority).granted('portfolio_read')
      await until(async () => {
        const { size = 0, ledger = -1 } = (await signed()) ?? {}
        return size > before && size === ledger
      })
      before = (await signed())!.size
    }
    const { text } = await fetchMetrics()
    expect(text).toMatch(/^usher_checkpoints_total\{outcome="signed"\} [1-9]/m)
    expect(text).not.toMatch(/^usher_checkpoints_total\{outcome="contradicted"\} [1-9]/m)
  })

  it('has the root that its checkpoint says: over its entries, and over its tiles', async () => {
    const { alice } = authority
    await append(authority, alice, 600)
    const { size, root } = await checkpointOf(alice)
    expect(size).toBeGreaterThanOrEqual(600)
    const entries = await entriesOf(alice)
    const leaves = entries.slice(0, size).map(entry =>
      ledgerLeaf({
        owner: alice.owner,
        ts: entry['ts']!,
        kind: entry['kind']!,
        salt: decodeBase64url(entry['salt']!),
        family: entry['family'] ?? null,
        handle: entry['handle'] ?? null,
        count: entry['count'] ?? 1,
        data: entry['data_text']!,
        prev: entry['prev'] ?? 0,
      }),
    )
    expect(rootOf(appendLeaves({ size: 0, hashes: [] }, leaves).frontier)).toEqual(root)
    const full = Math.floor(size / 256)
    const paths = [
      ...Array.from({ length: full }, (_, n) => `0/${encodeTileNumber(n)}`),
      `0/${encodeTileNumber(full)}.p/${size % 256}`,
    ]
    const hashes: Uint8Array[] = []
    for (const path of paths) hashes.push(...hashesIn(await tile(alice, path)))
    expect(hashes.map(hash => Buffer.from(hash))).toEqual(leaves)
    const above = hashesIn(await tile(alice, `1/000.p/${full}`))
    expect(rootOf(appendLeaves({ size: 0, hashes: [] }, leaves.slice(0, 256)).frontier)).toEqual(
      Buffer.from(above[0]!),
    )
  })

  it('has no tile and no part of one beyond its checkpoint, and none of another spelling', async () => {
    const bob = authority.owners['bob']!
    await append(authority, bob, 10)
    const { size } = await checkpointOf(bob)
    expect(await tile(bob, `0/000.p/${size}`)).toHaveLength(size * 32)
    expect(await tile(bob, '0/000.p/3')).toHaveLength(96)
    for (const path of [
      '0/000',
      `0/000.p/${size + 1}`,
      '1/000.p/1',
      '0/001.p/1',
      '00/000',
      '0/0',
      'entries/000',
    ])
      expect([path, (await get(bob, `/owner/ledger/tile/${path}`)).status]).toEqual([path, 404])
  })

  it('has no head that a witness has cosigned where there is none, and a last one all the same', async () => {
    await checkpointOf(authority.alice)
    const { status, body } = await get(authority.alice, '/owner/ledger/checkpoint?witnessed=true')
    expect([status, body.error]).toEqual([404, 'not_found'])
  })

  it('is read by nobody else', async () => {
    for (const target of [
      '/owner/ledger/checkpoint',
      '/owner/ledger/tile/0/000.p/1',
      '/owner/ledger?bodies=true',
    ]) {
      const { status } = await authority.call(authority.alice, { target, sign: false })
      expect([target, status]).toEqual([target, 401])
    }
  })

  it('names no body where it was not asked for', async () => {
    const { body } = await get(authority.alice, '/owner/ledger?limit=1000&q=quoted')
    expect(body.entries.length).toBeGreaterThan(0)
    for (const entry of body.entries) {
      expect(entry).not.toHaveProperty('salt')
      expect(entry.prev).toBe('her own')
    }
    const searched = await get(authority.alice, '/owner/ledger?bodies=true&q=quoted&limit=5')
    for (const entry of searched.body.entries) expect(entry.salt).toHaveLength(22)
  })
})

describe('Without keys of the log', () => {
  it('nothing of it is served', async () => {
    for (const target of ['/owner/ledger/checkpoint', '/owner/ledger/tile/0/000.p/1']) {
      const { status, body } = await without.call(without.alice, { target })
      expect([target, status, body.error]).toEqual([target, 404, 'not_found'])
    }
    const { status, body } = await without.call(without.alice, { target: '/owner/ledger?bodies=true' })
    expect([status, body.error]).toEqual([400, 'invalid_request'])
    const asked = await without.request('POST', '/ledger/x/consistency', { body: '{}' })
    expect(asked.status).toBe(404)
  })
})

describe('Two heads of one log', () => {
  let tag: string
  /** By size, from 1. */
  const heads: TreeHead[] = []
  const [encoded, SIZES] = [(root: Uint8Array) => Buffer.from(root).toString('base64url'), 24]
  beforeAll(async () => {
    const bob = authority.owners['bob']!
    tag = await tagOf(bob)
    await append(authority, bob, SIZES)
    const { size } = await checkpointOf(bob)
    const leaves = hashesIn(await tile(bob, `0/000.p/${size}`))
    for (let n = 1; n <= SIZES; n++)
      heads.push({
        size: n,
        root: rootOf(appendLeaves({ size: 0, hashes: [] }, leaves.slice(0, n)).frontier),
      })
  })
  const ask = (from: TreeHead, to: TreeHead, of = tag) =>
    authority.request('POST', `/ledger/${of}/consistency`, {
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        from: { size: from.size, root: encoded(from.root) },
        to: { size: to.size, root: encoded(to.root) },
      }),
    })

  it('are proved to belong together to anybody who has both', async () => {
    const [from, to] = [heads[6]!, heads[19]!]
    const { status, body } = await ask(from, to)
    expect(status).toBe(200)
    const proof = body.proof.map(decodeBase64url)
    expect(proof.length).toBeGreaterThan(2)
    expect(provesConsistency(from, to, proof)).toBe(true)
    expect((await ask(to, to)).body).toEqual({ proof: [] })
  })

  it('for all pairs of sizes, and no proof holds with one hash changed', { timeout: 120_000 }, async () => {
    const { db } = authority.database
    for (const from of heads)
      for (const to of heads.slice(from.size - 1)) {
        const proof = (await proveConsistency(db, { base: originBase(ISSUER), tag }, { from, to }))!
        expect([from.size, to.size, provesConsistency(from, to, proof)]).toEqual([from.size, to.size, true])
        for (const [n, hash] of proof.entries()) {
          const changed = proof.with(
            n,
            Buffer.from(hash.map((byte, at) => (at === n % 32 ? byte ^ 1 : byte))),
          )
          expect([from.size, to.size, n, provesConsistency(from, to, changed)]).toEqual([
            from.size,
            to.size,
            n,
            false,
          ])
        }
      }
  })

  it('are 404 where one is not of this log, whichever, so that nobody learns a root from it', async () => {
    const [from, to] = [heads[6]!, heads[19]!]
    const other = { size: 7, root: heads[7]!.root }
    const beyond = { size: 1_000_000, root: to.root }
    for (const [older, newer, of] of [
      [other, to, tag],
      [from, { ...to, root: from.root }, tag],
      [from, beyond, tag],
      [to, from, tag],
      [from, to, 'another'],
      [from, to, await tagOf(authority.alice)],
    ] as const) {
      const { status, body } = await ask(older, newer, of)
      expect([status, body.error]).toEqual([404, 'not_found'])
    }
  })

  it.each<[string, unknown]>([
    ['no head', {}],
    ['a size of 0', { from: { size: 0, root: 'A'.repeat(43) }, to: { size: 1, root: 'A'.repeat(43) } }],
    ['a short root', { from: { size: 1, root: 'AAAA' }, to: { size: 1, root: 'A'.repeat(43) } }],
    ['another spelling', { from: { size: 1, root: 'B'.repeat(43) }, to: { size: 1, root: 'A'.repeat(43) } }],
  ])('are refused with %s', async (_what, body) => {
    const { status, body: answered } = await authority.request('POST', `/ledger/${tag}/consistency`, {
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    expect([status, answered.error]).toEqual([400, 'invalid_request'])
  })

  it('are asked about by one source sixty times a minute at most', async () => {
    let last = await ask(heads[0]!, heads[1]!)
    for (let n = 0; n < 70 && last.status !== 429; n++) last = await ask(heads[0]!, heads[1]!)
    expect([last.status, last.body.error]).toEqual([429, 'temporarily_unavailable'])
    expect(Number(last.headers.get('retry-after'))).toBeGreaterThan(0)
  })
})
