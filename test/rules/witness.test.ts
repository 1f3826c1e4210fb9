/** Whether a witness cosigns: C2SP `tlog-witness`. docs/details/witness.md. */
import { describe, expect, it } from 'vitest'
import {
  appendLeaves,
  EMPTY_ROOT,
  leafHash,
  planConsistency,
  proofOf,
  rootOf,
  type TreeHead,
} from '../../src/rules/ledger/merkle.ts'
import { judgeSubmission, readSubmission, type WitnessVerdict } from '../../src/rules/ledger/witness.ts'
import { signCheckpoint, type Checkpoint } from '../../src/wire/ledger/checkpoint.ts'
import { signNote } from '../../src/wire/ledger/signed-note.ts'
import type { Refusal } from '../../src/wire/refusal.ts'
import { generatePrivateJwk, importPrivateJwk } from '../../src/wire/signatures/keys.ts'

const newKey = () => importPrivateJwk(generatePrivateJwk())
const [key, next, other] = [newKey(), newKey(), newKey()]
const ISSUERS = [
  { issuer: 'https://other.example', keys: [other] },
  { issuer: 'https://as.example', keys: [key, next] },
]
const ORIGIN = 'as.example/ledger/AbCdEfGhIjKl'
const ROOT = Buffer.alloc(32, 7)
const submit = (note: string, oldSize = 0) => readSubmission({ oldSize, proof: [], note }, ISSUERS)
const refusalOf = (note: string, oldSize = 0): [number, string] => {
  try {
    submit(note, oldSize)
  } catch (error) {
    const { status, code } = error as Refusal
    return [status, code]
  }
  throw new Error('it was not refused')
}
const noteOf = (changes: Partial<Checkpoint> = {}, by = key): string =>
  signCheckpoint({ origin: ORIGIN, size: 5, root: ROOT, ...changes }, by)

describe('A submitted checkpoint', () => {
  it.each([
    ['the key that signs', key],
    ['another pinned key', next],
  ])('is taken where %s of its log signed it', (_what, by) => {
    const { issuer, checkpoint, text } = submit(noteOf({}, by), 5)
    expect(issuer).toBe(ISSUERS[1])
    expect(checkpoint).toEqual({ origin: ORIGIN, size: 5, root: ROOT })
    expect(text).toBe(`${ORIGIN}\n5\n${ROOT.toString('base64')}\n`)
  })

  it('is taken at the origin of after a restore, and with signatures of others behind its own', () => {
    const origin = `${ORIGIN}/1764374400`
    const note = noteOf({ origin })
    const line = signNote('text\n', { name: 'else.example', key: other }).slice('text\n\n'.length)
    expect(submit(note + line).checkpoint.origin).toBe(origin)
  })

  it.each([
    'as.example/ledger/',
    'as.example/ledger/a/b',
    'as.example/ledger/a/1/2',
    'as.example/ledgers/a',
    'as.example',
    'as.example.evil/ledger/a',
    'unknown.example/ledger/a',
  ])('is 404 of the origin %s, whoever signed it', origin => {
    expect(refusalOf(noteOf({ origin }))).toEqual([404, 'not_found'])
  })

  it('is 403 where no key of its own log signed it', () => {
    expect(refusalOf(noteOf({}, other))).toEqual([403, 'invalid_signature'])
    expect(refusalOf(noteOf({}, newKey()))).toEqual([403, 'invalid_signature'])
  })

  it('is 403 where a signature beside the true one is false', () => {
    const forged = noteOf().replace(/(— \S+ )(.{20})/, (_all, start: string) => start + 'A'.repeat(20))
    expect(refusalOf(forged)).toEqual([403, 'invalid_signature'])
    const [, lines = ''] = noteOf({ size: 6 }).split('\n\n')
    expect(refusalOf(noteOf() + lines)).toEqual([403, 'invalid_signature'])
  })

  it('is 400 where its text is no checkpoint, though its log signed it', () => {
    const extended = signNote(`${ORIGIN}\n5\n${ROOT.toString('base64')}\nmore\n`, { name: ORIGIN, key })
    expect(refusalOf(extended)).toEqual([400, 'invalid_request'])
    expect(refusalOf('no note')).toEqual([400, 'invalid_request'])
  })

  it('is 400 where the proof begins at a larger tree', () => {
    expect(refusalOf(noteOf(), 6)).toEqual([400, 'invalid_request'])
    expect(submit(noteOf(), 5).oldSize).toBe(5)
  })

  it('is told of its log first: an unknown origin is 404 without a signature, a false one 403 at any size', () => {
    expect(refusalOf(noteOf({ origin: 'unknown.example/ledger/a' }), 6)).toEqual([404, 'not_found'])
    expect(refusalOf(noteOf({}, other), 6)).toEqual([403, 'invalid_signature'])
  })
})

/** All heads of one tree, by size, and of another one that has another leaf at place 3. */
const SIZES = 20
const leaves = Array.from({ length: SIZES }, (_, n) => leafHash(`leaf ${n}`))
const headsOf = (all: readonly Uint8Array[]): TreeHead[] =>
  Array.from({ length: SIZES + 1 }, (_, size) => ({
    size,
    root: rootOf(appendLeaves({ size: 0, hashes: [] }, all.slice(0, size)).frontier),
  }))
const heads = headsOf(leaves)
const fork = headsOf(leaves.with(3, leafHash('another')))
const proofBetween = (from: number, to: number, all = leaves): Buffer[] =>
  from === 0 ? [] : proofOf(planConsistency(from, to), () => Buffer.concat(all))
const judge = (
  head: TreeHead,
  latest: TreeHead | undefined,
  of: { oldSize?: number; proof?: Uint8Array[] } = {},
) =>
  judgeSubmission(
    { checkpoint: { origin: ORIGIN, ...head }, oldSize: latest?.size ?? 0, proof: [], ...of },
    latest,
  )
const PAIRS = heads.flatMap((_, from) => heads.slice(from).map(({ size }) => [from, size] as const))
const kindsOf = (verdict: (from: number, to: number) => WitnessVerdict): Set<string> =>
  new Set(PAIRS.map(([from, to]) => verdict(from, to).kind))

describe('A witness', () => {
  it('believes the first checkpoint of an origin, whatever its size', () => {
    for (const head of heads) expect(judge(head, undefined)).toEqual({ kind: 'cosign' })
    expect(judge(heads[5]!, undefined, { proof: [leaves[0]!] })).toMatchObject({ kind: 'unproved' })
    expect(judge({ size: 0, root: ROOT }, undefined)).toMatchObject({ kind: 'unproved' })
    expect(judge({ size: 0, root: EMPTY_ROOT }, undefined)).toEqual({ kind: 'cosign' })
  })

  it('cosigns each tree that continues the last one, for all pairs of sizes', () => {
    const cosigned = kindsOf((from, to) => judge(heads[to]!, heads[from], { proof: proofBetween(from, to) }))
    expect([...cosigned]).toEqual(['cosign'])
  })

  it('answers 409 with the size of the last one where the proof begins elsewhere, for all pairs', () => {
    for (const [from, to] of PAIRS)
      for (const oldSize of [from - 1, from + 1].filter(size => size >= 0))
        expect(judge(heads[to]!, heads[from], { oldSize, proof: proofBetween(from, to) })).toEqual({
          kind: 'conflict',
          size: from,
        })
    expect(judge(heads[5]!, undefined, { oldSize: 5 })).toEqual({ kind: 'conflict', size: 0 })
  })

  it('answers 409 at the size of the last one with another root, and never cosigns both', () => {
    for (let size = 4; size <= SIZES; size++)
      for (const proof of [[], [leaves[0]!]])
        expect(judge(fork[size]!, heads[size], { proof })).toEqual({ kind: 'contradiction', size })
  })

  it('answers 422 to a tree that does not continue the last one, with the proof of either', () => {
    for (let from = 4; from < SIZES; from++)
      for (let to = from + 1; to <= SIZES; to++)
        for (const all of [leaves, leaves.with(3, leafHash('another'))])
          expect(judge(fork[to]!, heads[from], { proof: proofBetween(from, to, all) }).kind).toBe('unproved')
  })

  it('answers 422 to a proof with a hash changed, left out or added, for all pairs of sizes', () => {
    const wrong = (proof: readonly Buffer[]): Buffer[][] => [
      [...proof, leaves[0]!],
      ...proof.map((_, n) => proof.toSpliced(n, 1)),
      ...proof.map((hash, n) =>
        proof.with(n, Buffer.from(hash.map((byte, at) => (at === 0 ? byte ^ 1 : byte)))),
      ),
    ]
    for (const [from, to] of PAIRS.filter(([size]) => size > 0))
      for (const proof of wrong(proofBetween(from, to)))
        expect(judge(heads[to]!, heads[from], { proof }).kind).toBe('unproved')
  })

  it('cosigns the tree without entries once, and every tree after it', () => {
    expect(judge(heads[0]!, heads[0])).toEqual({ kind: 'cosign' })
    expect(judge({ size: 0, root: ROOT }, heads[0])).toMatchObject({ kind: 'unproved' })
    expect(judge(heads[7]!, heads[0], { proof: [leaves[0]!] })).toMatchObject({ kind: 'unproved' })
  })
})
