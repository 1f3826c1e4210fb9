/**
 * An owner's ledger as she exports it from a real authority, and as others verify it: docs/choices.md, "The
 * file of a ledger". Contract: "Events" (row 5), "Owner API".
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { sql } from 'kysely'
import { describe, expect, it } from 'vitest'
import { fetchProofs } from '../../src/client/consistency-proofs.ts'
import { ledgerFileLines } from '../../src/owner/ledger-file.ts'
import { appendLedgerAll, type NewLedgerEntry } from '../../src/storage/authority/ledger/ledger.ts'
import { verifyLedgerFile, type VerifyLedgerOptions } from '../../src/terminal/verify-ledger.ts'
import { readLedgerExport, readLedgerFile, verifyLedger, type LedgerFile } from '../../src/verify/index.ts'
import { asHandle } from '../../src/wire/identifiers.ts'
import { headOfCheckpoint } from '../../src/wire/ledger/ledger-head.ts'
import { publicJwk } from '../../src/wire/signatures/keys.ts'
import { ISSUER, type TestOwner } from '../support/authority.ts'
import { capturedTerminal } from '../support/captured-terminal.ts'
import { configFolder } from '../support/config-files.ts'
import { withLogKeys } from '../support/log-keys.ts'
import { authorityStand } from '../support/stands.ts'
import { testAgent } from '../support/test-agent.ts'

const log = withLogKeys()
const OWNERS = ['alice', 'bob', 'carol', 'dave', 'erin']
const authority = authorityStand({ environment: log.environment, owners: OWNERS })
const { folder } = configFolder()

/** Data whose members are called as what a leaf is made from. */
const HOSTILE = { family: 'fam_x', handle: 'jkt:x', count: 7, prev: 3, salt: 'AAAA', owner: 'eve' }

const append = (owner: TestOwner, count: number) =>
  appendLedgerAll(
    authority.database.db,
    owner.owner,
    Array.from({ length: count }, (_, n): NewLedgerEntry => ({
      kind: 'approved',
      ...(n % 3 === 0 ? {} : { handle: asHandle(`jkt:${n % 3}`) }),
      data: { ...HOSTILE, n, text: 'é "quoted" \u2028 😀' },
    })),
  )

/** The text of her file, or of the record of an agent, as if the last checkpoint were two seconds old. */
async function exported(owner: TestOwner, handle?: string): Promise<string> {
  await sql`UPDATE ledger_checkpoints SET signed_at = signed_at - interval '2 seconds'
    WHERE owner = ${owner.owner}`.execute(authority.database.db)
  const lines: string[] = []
  for await (const line of ledgerFileLines(owner.client.access, handle)) lines.push(line)
  return lines.join('')
}
const read = (text: string): Promise<LedgerFile> => readLedgerFile(text.split('\n'))
const faultsOf = async (owner: TestOwner) => {
  const { faults } = verifyLedger(await read(await exported(owner)), { keys: log.keys, issuer: ISSUER })
  return faults.map(({ code, position, to }) => [code, position, to])
}

let files = 0
function fileOf(text: string): string {
  const path = join(folder, `file-${++files}`)
  writeFileSync(path, text)
  return path
}
async function verify(text: string, options: Partial<VerifyLedgerOptions>) {
  const terminal = capturedTerminal()
  const keys = fileOf(JSON.stringify({ keys: log.keys.map(key => publicJwk(key)) }))
  const code = await verifyLedgerFile(
    fileOf(text),
    { keys, ...options },
    { terminal, now: 1_900_000_000, fetchProofs },
  ).then(
    () => 0,
    (error: { code?: number }) => error.code ?? -1,
  )
  return { code, printed: terminal.printed }
}

/** The keys that the authority publishes. */
async function keysFile(): Promise<string> {
  const { body } = await authority.request('GET', '/jwks')
  const log_keys = log.keys.map(key => publicJwk(key))
  return fileOf(JSON.stringify({ issuer: ISSUER, log_keys, keys: body.keys }))
}

describe('The ledger that an owner exports', () => {
  it('is what the log signed, whatever its entries say, and has every entry below its head', async () => {
    const { alice } = authority
    await append(alice, 600)
    const file = await read(await exported(alice))
    expect(file.owner).toBe('alice')
    expect(file.entries.length).toBeGreaterThanOrEqual(600)
    expect(file.tiles.map(({ level, index }) => `${level}/${index}`)).toEqual(['0/0', '0/1', '0/2', '1/0'])
    expect(verifyLedger(file, { keys: log.keys, issuer: ISSUER }).faults).toEqual([])
  })

  it('is whole, or not there with a code: never the part of it that as many pages have as may be read', async () => {
    const erin = authority.owners['erin']!
    await append(erin, 600)
    const { access } = erin.client
    const linesIn = async (pagesMax: number): Promise<string[]> => {
      const lines: string[] = []
      for await (const line of ledgerFileLines(access, undefined, { pagesMax })) lines.push(line)
      return lines
    }
    const { entries } = await read((await linesIn(100)).join(''))
    expect(entries.length).toBeGreaterThanOrEqual(600)
    await expect(linesIn(2)).rejects.toMatchObject({ code: 'list_endless' })
  })

  it('shows which entry somebody with the database has changed, and which he has deleted', async () => {
    const bob = authority.owners['bob']!
    await append(bob, 300)
    expect(await faultsOf(bob)).toEqual([])
    const { db } = authority.database
    await sql`UPDATE ledger SET data = '{"n":1}' WHERE owner = 'bob' AND seq = 10`.execute(db)
    await sql`DELETE FROM ledger WHERE owner = 'bob' AND seq = 20`.execute(db)
    expect(await faultsOf(bob)).toEqual([
      ['entry', 10, 10],
      ['gap', 20, 20],
    ])
    await sql`UPDATE ledger SET seq = -1 WHERE owner = 'bob' AND seq = 30`.execute(db)
    await sql`UPDATE ledger SET seq = 30 WHERE owner = 'bob' AND seq = 31`.execute(db)
    await sql`UPDATE ledger SET seq = 31 WHERE owner = 'bob' AND seq = -1`.execute(db)
    expect(await faultsOf(bob)).toEqual([
      ['entry', 10, 10],
      ['entry', 30, 31],
      ['gap', 20, 20],
    ])
  })

  it('shows that a hash of the tree was changed, and in which tile', async () => {
    const carol = authority.owners['carol']!
    await append(carol, 300)
    expect(await faultsOf(carol)).toEqual([])
    await sql`UPDATE ledger_tiles SET hashes = set_byte(hashes, 64, get_byte(hashes, 64) # 1)
      WHERE owner = 'carol' AND level = 0 AND index = 0`.execute(authority.database.db)
    expect(await faultsOf(carol)).toEqual([['leaf', 3, 3]])
  })

  it('has the promise of each receipt, which is verified with keys that the authority publishes', async () => {
    const { receipt } = await testAgent(authority).granted('portfolio_read')
    const keys = await keysFile()
    const text = await exported(authority.alice)
    const receipts = [fileOf(`${receipt}\n`)]
    expect(await verify(text, { keys, receipts })).toEqual({
      code: 0,
      printed: expect.stringContaining('nothing that you gave contradicts them'),
    })
    const dave = authority.owners['dave']!
    await append(dave, 5)
    const { printed } = await verify(await exported(dave), { keys, receipts })
    expect(printed).toMatch(/^other_ledger: The receipt of .*:1 is of alice at /m)
  })

  it('continues to a head of later, as the authority proves to whoever asks', async () => {
    const dave = authority.owners['dave']!
    await append(dave, 5)
    const older = await exported(dave)
    await append(dave, 290)
    const { checkpoint } = await read(await exported(dave))
    const head = headOfCheckpoint(checkpoint, log.keys[0]!.kid)
    const heads = [fileOf(JSON.stringify({ ledger_head: head }))]
    expect(await verify(older, { heads })).toEqual({ code: 1, printed: expect.stringMatching(/^rollback: /) })
    expect(await verify(older, { heads, fetch: authority.publicUrl })).toMatchObject({ code: 0 })
    expect(await verify(await exported(dave), { heads })).toMatchObject({ code: 0 })
  })

  it('has the record of one agent, which is verified by proofs, with its receipt and later heads', async () => {
    const { alice } = authority
    const agent = testAgent(authority)
    const { receipt } = await agent.granted('portfolio_read')
    const [keys, receipts] = [await keysFile(), [fileOf(`${receipt}\n`)]]
    const text = await exported(alice, agent.handle)
    const record = await readLedgerExport(text.split('\n'))
    expect(record).toMatchObject({ owner: 'alice', handle: agent.handle })
    expect(record.entries.length).toBeGreaterThan(1)
    expect(new Set(record.entries.map(({ handle }) => handle))).toEqual(new Set([agent.handle]))
    expect(await verify(text, { keys, receipts })).toEqual({
      code: 0,
      printed: expect.stringContaining('That is one chain'),
    })
    await append(alice, 300)
    const { checkpoint } = await read(await exported(alice))
    const heads = [fileOf(JSON.stringify({ ledger_head: headOfCheckpoint(checkpoint, log.keys[0]!.kid) }))]
    expect(await verify(text, { heads, fetch: authority.publicUrl })).toMatchObject({ code: 0 })
    const { checkpoint: older } = record
    const olderHeads = [fileOf(JSON.stringify({ ledger_head: headOfCheckpoint(older, log.keys[0]!.kid) }))]
    const later = await exported(alice, agent.handle)
    expect((await verify(later, { heads: olderHeads })).printed).toMatch(/^unproved: /)
    expect(await verify(later, { heads: olderHeads, fetch: authority.publicUrl })).toMatchObject({ code: 0 })
  })

  it('shows in the record of an agent which entry somebody with the database left out or changed', async () => {
    const { alice } = authority
    const { db } = authority.database
    await append(alice, 9)
    const [first, second] = (await readLedgerExport((await exported(alice, 'jkt:1')).split('\n'))).entries
    await sql`DELETE FROM ledger WHERE owner = 'alice' AND seq = ${second!.seq}`.execute(db)
    expect(await verify(await exported(alice, 'jkt:1'), {})).toEqual({
      code: 1,
      printed: expect.stringMatching(`^gap: Entry ${second!.seq} is absent, which entry`),
    })
    await sql`UPDATE ledger SET data = '{"n":1}' WHERE owner = 'alice' AND seq = ${first!.seq}`.execute(db)
    expect((await verify(await exported(alice, 'jkt:1'), {})).printed).toMatch(
      new RegExp(`^proof: Entry ${first!.seq} is not what was signed`),
    )
  })
})
