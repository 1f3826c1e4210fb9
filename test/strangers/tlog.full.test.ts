/**
 * A verifier of transparency logs that knows nothing of ours, unmodified, before the ledger of a real
 * authority: aics-tlog, in Python. It gets what an owner exports and what the authority answers to anybody,
 * and the key that the log publishes. Contract: "Events" (row 5); docs/choices.md, "The tree of the ledger",
 * "Checkpoints of the ledger". What Go's checksum database makes of the same is in test/rules/merkle.test.ts
 * and test/wire/checkpoint.test.ts.
 */
import { beforeAll, expect, it } from 'vitest'
import { proveConsistency } from '../../src/authority/ledger/consistency.ts'
import { ledgerFileLines } from '../../src/owner/ledger-file.ts'
import {
  appendLeaves,
  hashesIn,
  rootOf,
  type Frontier,
  type TreeHead,
} from '../../src/rules/ledger/merkle.ts'
import { appendLedgerAll } from '../../src/storage/authority/ledger/ledger.ts'
import { asHandle } from '../../src/wire/identifiers.ts'
import { originBase, verifyCheckpoint } from '../../src/wire/ledger/checkpoint.ts'
import { ISSUER } from '../support/authority.ts'
import { withLogKeys } from '../support/log-keys.ts'
import { python } from '../support/python.ts'
import { describeWith } from '../support/requirement.ts'
import { authorityStand } from '../support/stands.ts'
import { until } from '../support/until.ts'

type Line = Record<string, unknown>
interface Claim {
  from: TreeHead
  to: TreeHead
  proof: readonly Uint8Array[]
}

const log = withLogKeys()
const authority = authorityStand({ environment: log.environment })
const AGENT = 'jkt:1'
const SIZES = 24

describeWith(python('tlog'), 'aics-tlog, of Python', found => {
  let ledger: Line[]
  let record: Line[]
  let checkpoint: { origin: string } & TreeHead

  beforeAll(async () => {
    const { database, alice } = authority
    await appendLedgerAll(
      database.db,
      alice.owner,
      Array.from({ length: 300 }, (_, n) => ({
        kind: 'approved' as const,
        ...(n % 3 === 0 ? {} : { handle: asHandle(`jkt:${n % 3}`) }),
        data: { n, text: 'é "quoted" \u2028 😀 \n' },
      })),
    )
    const head = () => authority.call(alice, { target: '/owner/ledger/checkpoint' })
    await until(async () => Number((await head()).text.split('\n')[1]) >= 300)
    const linesOf = async (handle?: string): Promise<Line[]> => {
      const lines: Line[] = []
      for await (const line of ledgerFileLines(alice.client.access, handle)) lines.push(JSON.parse(line))
      return lines
    }
    ledger = await linesOf()
    record = await linesOf(AGENT)
    const note = ledger[0]!['checkpoint'] as string
    const [origin] = note.split('\n') as [string]
    checkpoint = verifyCheckpoint(note, { origin, keys: log.keys })
  })

  const ask = (job: object) => found.ask('tlog.py', job) as Promise<Record<string, unknown>>
  const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64')
  const headOf = ({ size, root }: TreeHead) => ({ size, root: base64(root) })
  /** By a key that the log publishes. */
  const opened = async (note: string, nth = 0) => {
    const { body } = await authority.request('GET', '/ledger/jwks')
    return ask({ note: { text: note, name: checkpoint.origin, x: body.keys[nth].x } })
  }

  it('opens the signed head by the key that the log publishes, and not with a byte changed or by another of them', async () => {
    const note = ledger[0]!['checkpoint'] as string
    expect(note).toBe(record[0]!['checkpoint'])
    expect(await opened(note)).toEqual({ note: { origin: checkpoint.origin, ...headOf(checkpoint) } })
    const refused = { note: { error: expect.any(String) } }
    const { size } = checkpoint
    expect(await opened(note.replace(`\n${size}\n`, `\n${size - 1}\n`))).toEqual(refused)
    expect(await opened(note, 1)).toEqual(refused)
  })

  it('makes the root that was signed from the entries that were exported, and another one if one is changed', async () => {
    const { owner } = ledger[0]!
    const entries = ledger.filter(line => 'seq' in line)
    expect(entries).toHaveLength(checkpoint.size)
    const changed = entries.with(99, { ...entries[99], data_text: '{}' })
    const rootOfEntries = async (all: Line[]) => (await ask({ tree: { owner, entries: all } }))['tree']
    expect(await rootOfEntries(entries)).toBe(base64(checkpoint.root))
    expect(await rootOfEntries(changed)).not.toBe(base64(checkpoint.root))
  })

  it('verifies the proof of inclusion of each entry of an agent, and none with a hash, the leaf or the size changed', async () => {
    const { owner } = record[0]!
    const claims = record.slice(1).map(entry => ({ owner, entry, ...headOf(checkpoint) }))
    const proofOf = ({ entry }: { entry: Line }) => Buffer.from(entry['proof'] as string, 'base64url')
    const other = claims.flatMap(claim => {
      const proof = proofOf(claim)
      proof[proof.length - 1]! ^= 1
      return [
        { ...claim, entry: { ...claim.entry, proof: proof.toString('base64url') } },
        { ...claim, entry: { ...claim.entry, kind: 'denied' } },
        { ...claim, size: 2 * claim.size },
      ]
    })
    const { inclusions } = await ask({ inclusions: [...claims, ...other] })
    expect(claims.length).toBeGreaterThanOrEqual(100)
    expect(inclusions).toEqual([...claims.map(() => true), ...other.map(() => false)])
  })

  it('verifies that heads of all sizes continue each other by what the authority answers, and no other head', async () => {
    const tile = ledger.find(({ level, index }) => level === 0 && index === 0)!
    const leaves = hashesIn(Buffer.from(tile['hashes'] as string, 'base64url'))
    const none: Frontier = { size: 0, hashes: [] }
    const heads = Array.from({ length: SIZES }, (_, n): TreeHead => ({
      size: n + 1,
      root: rootOf(appendLeaves(none, leaves.slice(0, n + 1)).frontier),
    }))
    const place = { base: originBase(ISSUER), tag: checkpoint.origin.split('/').at(-1)! }
    const pairs = heads.flatMap(to => heads.slice(0, to.size).map(from => ({ from, to })))
    const claims: Claim[] = []
    for (const { from, to } of [...pairs, { from: heads[6]!, to: checkpoint }])
      claims.push({ from, to, proof: (await proveConsistency(authority.database.db, place, { from, to }))! })
    const forks = claims.map(({ from, ...claim }) => ({ ...claim, from: { ...from, root: leaves[0]! } }))
    const cut = claims.filter(({ proof }) => proof.length > 0)
    const others = [
      ...forks.filter(({ from }) => from.size > 1),
      ...cut.map(({ proof, ...claim }) => ({ ...claim, proof: proof.slice(1) })),
    ]
    const asked = (all: Claim[]) =>
      all.map(({ from, to, proof }) => ({ from: headOf(from), to: headOf(to), proof: proof.map(base64) }))
    const { consistencies } = await ask({ consistencies: asked([...claims, ...others]) })
    expect(consistencies).toEqual([...claims.map(() => true), ...others.map(() => false)])
  })
})
