/**
 * The check of ledger entries on her page: contract, "Events" (row 5). The page and the programs judge alike:
 * leaves, trees and heads are those of `src/rules/ledger` and `src/wire/ledger`.
 */
import { createHash } from 'node:crypto'
import * as fc from 'fast-check'
import { beforeEach, describe, expect, it } from 'vitest'
import { logKeysOf, rememberKeys, usableKeys } from '../../src/console/ledger/log-keys.ts'
import { isOwnLedger } from '../../src/console/ledger/own-ledger.ts'
import {
  entryOfText,
  leafOf,
  leavesUnder,
  logHead,
  type TileExtent,
} from '../../src/console/ledger/signed-tree.ts'
import { appendLeaves, rootOf } from '../../src/rules/ledger/merkle.ts'
import { encodeBase64url } from '../../src/wire/encoding.ts'
import { asFamily, asHandle } from '../../src/wire/identifiers.ts'
import { signCheckpoint, verifyCheckpoint } from '../../src/wire/ledger/checkpoint.ts'
import type { LedgerFileEntry } from '../../src/wire/ledger/ledger-file.ts'
import type { LedgerEntry } from '../../src/wire/owner/owner-api.ts'
import { Refusal } from '../../src/wire/refusal.ts'
import { generatePrivateJwk, importPrivateJwk, publicJwk } from '../../src/wire/signatures/keys.ts'
import {
  LOG_KEY,
  ORIGIN,
  OWNER,
  leafOf as programLeafOf,
  sampleEntries,
  tilesOf,
} from '../support/sample-ledger.ts'

const ISSUER = 'https://as.example'
const OTHER_KEY = importPrivateJwk(generatePrivateJwk())

/** As `GET /owner/ledger?bodies=true` answers it. */
function answerOf({ salt, prev, family, handle, count, ...entry }: LedgerFileEntry): LedgerEntry {
  return {
    ...entry,
    owner: OWNER,
    salt: encodeBase64url(salt),
    ...(family === null ? {} : { family: asFamily(family) }),
    ...(handle === null ? {} : { handle: asHandle(handle), prev: prev! }),
    ...(count === 1 ? {} : { count }),
  }
}
/** The first has a handle and no family, the second both and a count, the fourth no handle. */
const ENTRIES = sampleEntries(6)
const [, second, , fourth] = ENTRIES.map(answerOf)

describe('The leaf of an entry', () => {
  it('is the one that programs make', async () => {
    for (const entry of ENTRIES)
      expect(Buffer.from((await leafOf(answerOf(entry)))!)).toEqual(programLeafOf(entry))
  })

  it.each<[string, Partial<LedgerEntry>]>([
    ['its owner', { owner: 'bob' }],
    ['its time', { ts: '2026-11-28T18:00:02.000Z' }],
    ['its kind', { kind: 'denied' }],
    ['its agent', { handle: asHandle('jkt:two') }],
    ['its negotiation', { family: asFamily('fam_x') }],
    ['its count', { count: 3 }],
    ['the entry before', { prev: 7 }],
    ['its salt', { salt: 'AAAAAAAAAAAAAAAAAAAAAA' }],
    ['a blank in its text', { data_text: `${second!.data_text} ` }],
  ])('is another with %s changed', async (_what, changes) => {
    expect(await leafOf({ ...second!, ...changes })).not.toEqual(await leafOf(second!))
  })

  it.each(['owner', 'salt', 'data_text', 'prev'])('is none if the answer has no %s', async name => {
    const { [name]: _left, ...rest } = second!
    expect(await leafOf(rest as LedgerEntry)).toBeUndefined()
  })

  it('needs no entry before it where there is no agent', async () => {
    expect(fourth).not.toHaveProperty('prev')
    expect(await leafOf(fourth!)).toBeDefined()
  })
})

describe('What an entry says', () => {
  it('is read from the text of its leaf, whatever else the answer has', () => {
    const lie = { ...second!, agreement: 's256:another', tool: 'portfolio_read' }
    expect(entryOfText(lie)).toEqual({
      seq: 2,
      ts: second!.ts,
      kind: 'touched',
      family: 'fam_1',
      handle: 'jkt:1',
      count: 2,
      agreement: 's256:2',
      text: '"quoted"',
    })
  })

  it('is hidden by no member of the same name in that text', () => {
    const data_text = '{"seq":9,"kind":"approved","handle":"jkt:two","tool":"x"}'
    expect(entryOfText({ seq: 2, ts: 'then', kind: 'denied', data_text })).toEqual({
      seq: 2,
      ts: 'then',
      kind: 'denied',
      handle: 'jkt:two',
      tool: 'x',
    })
  })

  it.each([
    ['absent', undefined],
    ['no object', '[]'],
    ['ambiguous', '{"tool":"x","tool":"y"}'],
  ])('is nothing if the text is %s', (_what, data_text) => {
    const entry: LedgerEntry = { seq: 2, ts: 'then', kind: 'denied' }
    expect(entryOfText(data_text === undefined ? entry : { ...entry, data_text })).toBeUndefined()
  })
})

/** A tree of that size, what a log serves of it, and what was read of that. */
function treeOf(size: number) {
  const leaves = Array.from({ length: size }, (_, n) => createHash('sha256').update(`leaf ${n}`).digest())
  const root = rootOf(appendLeaves({ size: 0, hashes: [] }, leaves).frontier)
  const tiles = new Map(
    tilesOf(leaves).map(({ level, index, hashes }) => [`${level}/${index}`, Uint8Array.from(hashes)]),
  )
  const reads: string[] = []
  const read = async ({ level, index, width }: TileExtent): Promise<Uint8Array> => {
    reads.push(`${level}/${index}`)
    return tiles.get(`${level}/${index}`)!.subarray(0, width * 32)
  }
  return { leaves, head: { size, root }, tiles, reads, read }
}
const SIZES = [1, 2, 3, 7, 255, 256, 257, 511, 512, 700, 65_536, 65_537, 65_800]
const placesIn = (size: number): number[] =>
  [...new Set([0, 1, 254, 255, 256, size >> 1, size - 1])].filter(n => n < size)

describe('A tree', () => {
  it.each(SIZES)('of %i leaves tells each, and reads each tile once', async size => {
    const { leaves, head, reads, read } = treeOf(size)
    const leafAt = leavesUnder(head, read)
    for (const place of placesIn(size)) expect(Buffer.from((await leafAt(place))!)).toEqual(leaves[place])
    expect(new Set(reads).size).toBe(reads.length)
    expect([await leafAt(size), await leafAt(-1)]).toEqual([undefined, undefined])
  })

  it.each(SIZES)('of %i leaves tells none under another root or size', async size => {
    const { head, read, tiles } = treeOf(size)
    const other = Uint8Array.from(head.root, (byte, at) => (at === 31 ? byte ^ 1 : byte))
    for (const place of placesIn(size)) {
      expect(await leavesUnder({ ...head, root: other }, read)(place)).toBeUndefined()
      if (place < size - 1)
        expect(await leavesUnder({ ...head, size: size - 1 }, read)(place)).toBeUndefined()
    }
    const wider = async ({ level, index, width }: TileExtent): Promise<Uint8Array> =>
      Buffer.concat([tiles.get(`${level}/${index}`) ?? Buffer.alloc(0), Buffer.alloc(32)]).subarray(
        0,
        width * 32,
      )
    expect(await leavesUnder({ ...head, size: size + 1 }, wider)(0)).toBeUndefined()
  })

  it('tells none by a tile in which one bit is another, wherever the tile and the bit are', async () => {
    const trees = [5, 256, 300, 700].map(treeOf)
    const chosen = fc.tuple(fc.constantFrom(...trees), fc.nat(), fc.nat(), fc.nat())
    await fc.assert(
      fc.asyncProperty(chosen, async ([{ head, tiles, read }, placeSeed, tileSeed, bitSeed]) => {
        const place = placeSeed % head.size
        const used: string[] = []
        const noting = async (tile: TileExtent): Promise<Uint8Array> => {
          used.push(`${tile.level}/${tile.index}`)
          return read(tile)
        }
        expect(await leavesUnder(head, noting)(place)).toBeDefined()
        const name = used[tileSeed % used.length]!
        const changed = Uint8Array.from(tiles.get(name)!)
        const bit = bitSeed % (changed.length * 8)
        changed[bit >> 3]! ^= 1 << (bit & 7)
        const lying = async (tile: TileExtent): Promise<Uint8Array> =>
          `${tile.level}/${tile.index}` === name ? changed : read(tile)
        expect(await leavesUnder(head, lying)(place)).toBeUndefined()
      }),
      { numRuns: 60 },
    )
  })

  it('tells none by a tile that is too short, and fails if a tile cannot be had', async () => {
    const { head, read } = treeOf(300)
    const short = async (tile: TileExtent): Promise<Uint8Array> => (await read(tile)).subarray(32)
    expect(await leavesUnder(head, short)(0)).toBeUndefined()
    const silent = (): Promise<Uint8Array> => Promise.reject(new Error('nobody answers'))
    await expect(leavesUnder(head, silent)(0)).rejects.toThrow('nobody answers')
  })
})

describe('The head in a checkpoint', () => {
  const root = createHash('sha256').update('root').digest()
  const checkpoint = { origin: ORIGIN, size: 9, root }
  const note = signCheckpoint(checkpoint, LOG_KEY)
  const [text, lines] = note.split('\n\n') as [string, string]
  const headBy = (given: string, keys = [LOG_KEY.x], issuer = ISSUER) => logHead(given, { issuer, keys })

  it('is its size and its root, by one of the keys', async () => {
    for (const keys of [[LOG_KEY.x], [OTHER_KEY.x, LOG_KEY.x]]) {
      const head = await headBy(note, keys)
      expect(head).toEqual({ size: 9, root: Uint8Array.from(root) })
    }
    const both = `${note}${signCheckpoint(checkpoint, OTHER_KEY).split('\n\n')[1]}`
    expect(await headBy(both)).toMatchObject({ size: 9 })
    expect(await headBy(both, [OTHER_KEY.x])).toMatchObject({ size: 9 })
  })

  it.each<[string, string, string]>([
    ['key', 'another key signed', signCheckpoint(checkpoint, OTHER_KEY)],
    ['key', 'the key signed under another name', note.replace(/— \S+/, '— as.example/ledger/other')],
    ['signature', 'the size is another', note.replace('\n9\n', '\n10\n')],
    ['signature', 'a signature is cut', note.replace(/\S{8}\n$/, '\n')],
    ['unreadable', 'there is no signature', `${text}\n\n`],
    ['unreadable', 'a line follows the root', `${text}\nmore\n\n${lines}`],
    ['unreadable', 'the size is spelt in another way', note.replace('\n9\n', '\n09\n')],
    [
      'unreadable',
      'it is of another issuer',
      signCheckpoint({ ...checkpoint, origin: 'other.example/ledger/AbC' }, LOG_KEY),
    ],
    ['unreadable', 'it is empty', ''],
  ])('is none (%s) where %s', async (fault, _what, given) => {
    expect(await headBy(given)).toBe(fault)
  })

  it('is one for the page exactly where it is one for programs', async () => {
    const signs = fc.constantFrom('\n', ' ', '=', '+', '/', '—', '0', '9', 'a', 'z', 'A')
    await fc.assert(
      fc.asyncProperty(fc.nat(note.length - 1), signs, fc.nat(2), async (at, sign, cut) => {
        const given = note.slice(0, at) + sign + note.slice(at + cut)
        let read: string | number = 'refused'
        try {
          read = verifyCheckpoint(given, { origin: ORIGIN, keys: [LOG_KEY] }).size
        } catch (error) {
          if (!(error instanceof Refusal)) throw error
        }
        const head = await headBy(given)
        expect(typeof head === 'string' ? 'refused' : head.size).toBe(read)
      }),
      { numRuns: 500 },
    )
  })
})

describe('The keys of the log', () => {
  const stored = new Map<string, string>()
  const store = {
    getItem: (name: string): string | null => stored.get(name) ?? null,
    setItem: (name: string, value: string): void => void stored.set(name, value),
  }

  it('that a browser goes by are those that it saw first, for each issuer, until others are taken over', () => {
    stored.clear()
    expect(logKeysOf(store, ISSUER, ['one'])).toEqual(['one'])
    expect(logKeysOf(store, ISSUER, ['two'])).toEqual(['one'])
    expect(logKeysOf(store, 'https://other.example', ['three'])).toEqual(['three'])
    rememberKeys(store, ISSUER, ['two', 'one'])
    expect(logKeysOf(store, ISSUER, ['four'])).toEqual(['two', 'one'])
    expect(logKeysOf(store, 'https://other.example', [])).toEqual(['three'])
  })

  it.each(['', 'x', '[]', '{"https://as.example":[]}', '{"https://as.example":"one"}'])(
    'are seen anew if what was kept is %j',
    kept => {
      stored.clear()
      store.setItem('usher-log-keys', kept)
      expect(logKeysOf(store, ISSUER, ['one'])).toEqual(['one'])
      expect(logKeysOf(store, ISSUER, ['two'])).toEqual(['one'])
    },
  )

  it('are the Ed25519 keys of what is published', () => {
    expect(usableKeys([publicJwk(LOG_KEY), { kty: 'EC', crv: 'P-256', x: 'x' }, null, 'x'])).toEqual([
      LOG_KEY.x,
    ])
  })
})

describe('Whose ledger is hers', () => {
  const stored = new Map<string, string>()
  const store = {
    getItem: (name: string): string | null => stored.get(name) ?? null,
    setItem: (name: string, value: string): void => void stored.set(name, value),
  }
  beforeEach(() => stored.clear())
  const byKey = (kid: string, issuer = ISSUER) => ({
    issuer,
    proof: { by: 'key' as const, key: { kid } },
  })
  const byLogin = (claims: object, signature = 'AA') => {
    const token = `e30.${encodeBase64url(Buffer.from(JSON.stringify(claims)))}.${signature}`
    return { issuer: ISSUER, proof: { by: 'login' as const, login: { token } } }
  }
  const byServer = (token: string) => ({ issuer: ISSUER, proof: { by: 'server' as const, token } })

  it.each([
    ['a key', byKey('one'), byKey('two')],
    ['the same key at another authority', byKey('one'), byKey('one', 'https://other.example')],
    ['a login', byLogin({ sub: 'at-work' }), byLogin({ sub: 'another' })],
    ['a login that names nobody', byLogin({}), byLogin({}, 'BB')],
    ['her own machine', byServer('one'), byServer('two')],
  ])('is the first that was seen with her credential, and no other, by %s', async (_what, hers, others) => {
    expect(await isOwnLedger(store, hers, 'alice')).toBe(true)
    expect(await isOwnLedger(store, hers, 'bob')).toBe(false)
    expect(await isOwnLedger(store, others, 'bob')).toBe(true)
    expect(await isOwnLedger(store, hers, 'alice')).toBe(true)
    expect(await isOwnLedger(store, others, 'alice')).toBe(false)
  })

  it('is known by a login that was renewed since', async () => {
    expect(await isOwnLedger(store, byLogin({ sub: 'at-work', exp: 1 }), 'alice')).toBe(true)
    expect(await isOwnLedger(store, byLogin({ sub: 'at-work', exp: 2 }), 'bob')).toBe(false)
  })

  it('stays in the browser without a name', async () => {
    await isOwnLedger(store, byLogin({ sub: 'at-work' }), 'alice')
    expect([...stored.entries()].join()).not.toMatch(/alice|at-work/)
  })
})
