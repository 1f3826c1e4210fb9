/**
 * An authority that sends heads of ledgers to witnesses: docs/details/ledger.md, "Witnesses". Contract:
 * "Events" (row 5).
 */
import { sql } from 'kysely'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterEach, describe, expect, it, test } from 'vitest'
import type { WitnessAddress } from '../../src/authority/ledger/witness-client.ts'
import { witnessingsOf } from '../../src/authority/duties.ts'
import {
  createWitnessAsking,
  noteMovedHeads,
  startWitnessRounds,
  type WitnessOutcome,
} from '../../src/authority/ledger/witness-rounds.ts'
import { createOutbound } from '../../src/http/outbound/outbound.ts'
import { createLogger } from '../../src/http/telemetry/log.ts'
import { keepCheckpoint } from '../../src/storage/authority/ledger/ledger-checkpoints.ts'
import {
  keepWitnessed,
  loseOrigin,
  readWitnessed,
  readWitnessSizes,
} from '../../src/storage/authority/ledger/ledger-witnesses.ts'
import type { Owner } from '../../src/wire/identifiers.ts'
import { verifyCheckpoint } from '../../src/wire/ledger/checkpoint.ts'
import { cosign, verifyCosignatures } from '../../src/wire/ledger/cosignature.ts'
import { parseNote, signatureLine } from '../../src/wire/ledger/signed-note.ts'
import { encodeVerifierKey, parseWitnessKey } from '../../src/wire/ledger/verifier-key.ts'
import {
  generatePrivateJwk,
  importPrivateJwk,
  publicJwk,
  type PrivateKey,
} from '../../src/wire/signatures/keys.ts'
import { BASE, ledgerStand } from '../support/ledger-stand.ts'
import { seedOwner } from '../support/seed.ts'
import { issuerOf, startTestWitness, WITNESSED, type TestWitness } from '../support/witness.ts'

const { database, replica, key, append, sign, present, rested } = ledgerStand()
const closers: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close()
})

const startWitness = async (): Promise<TestWitness> => {
  const witness = await startTestWitness({ issuers: [issuerOf({ log_keys: [publicJwk(key)] })] })
  closers.push(() => witness.close())
  return witness
}
const addressOf = ({ publicUrl, keys }: Pick<TestWitness, 'publicUrl' | 'keys'>): WitnessAddress => ({
  url: publicUrl,
  key: keys[0]!,
})

const SCRIPTED = 'scripted.example'

/** A witness that answers so, by what it is sent and its key if `body` says so. Undefined: it never does. */
async function startScriptedWitness(
  answer: { status: number; body: string | ((sent: string, own: PrivateKey) => string) } | undefined,
) {
  let requests = 0
  const own = importPrivateJwk(generatePrivateJwk())
  const server = createServer((request, response) => {
    requests++
    void text(request).then(sent => {
      if (answer === undefined) return
      const { status, body } = answer
      response.writeHead(status).end(typeof body === 'string' ? body : body(sent, own))
    })
  })
  await new Promise<void>(resolve => void server.listen(0, '127.0.0.1', resolve))
  closers.push(async () => {
    server.closeAllConnections()
    await new Promise(resolve => void server.close(resolve))
  })
  const witness = parseWitnessKey(encodeVerifierKey({ name: SCRIPTED, type: 'cosignature', key: own }))
  const publicUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return { ...addressOf({ publicUrl, keys: [witness] }), requests: () => requests }
}

/** Starts rounds, which end with the test. */
function rounds(...witnesses: WitnessAddress[]) {
  const outcomes: WitnessOutcome[] = []
  const lines: string[] = []
  const outbound = createOutbound({ devLoopback: true })
  const log = createLogger({ name: 'authority', level: 'info', write: line => lines.push(line) })
  const count = (outcome: WitnessOutcome) => void outcomes.push(outcome)
  const repetition = startWitnessRounds(database.db, {
    witnesses,
    asking: createWitnessAsking({ witnesses }),
    outbound,
    base: BASE,
    log,
    count,
  })
  const stop = async (): Promise<void> => {
    const stopped = repetition.stop()
    await outbound.close()
    await stopped
  }
  closers.push(stop)
  return { outcomes, lines, stop }
}

/** Signs so many more entries of hers. */
async function signed(owner: Owner, count: number): Promise<void> {
  await append(owner, count)
  await rested(owner)
  expect(await sign(owner)).toBe('signed')
}
/** Makes her round due now, as if time had passed. */
async function dueNow(owner: Owner): Promise<void> {
  await sql`INSERT INTO due (owner, kind, at) VALUES (${owner}, 'witness', clock_timestamp())
    ON CONFLICT (owner, kind, client_id) DO UPDATE SET at = clock_timestamp()`.execute(database.db)
}
async function dueIn(owner: Owner): Promise<number | undefined> {
  const { rows } = await sql<{ seconds: number }>`
    SELECT extract(epoch FROM at - clock_timestamp())::float8 AS seconds FROM due
    WHERE owner = ${owner} AND kind = 'witness'`.execute(database.db)
  return rows[0]?.seconds
}
const witnessed = async (owner: Owner): Promise<string | undefined> =>
  readWitnessed(database.db, owner, (await present(owner))!.origin)
/** The size of the newest head that a witness has cosigned. */
const sizeOf = async (owner: Owner): Promise<number> => Number((await witnessed(owner))?.split('\n')[1] ?? 0)

describe('The head of a ledger', () => {
  it('goes to all witnesses, and is kept with the cosignatures of each', async () => {
    const owner = await seedOwner(database.db)
    const witnesses = [await startWitness(), await startWitness()]
    await signed(owner, 5)
    await dueNow(owner)
    const { outcomes } = rounds(...witnesses.map(addressOf))
    await expect.poll(() => outcomes).toEqual(['cosigned', 'cosigned'])
    const note = (await witnessed(owner))!
    const { origin, note: signedNote } = (await present(owner))!
    expect(note.startsWith(signedNote)).toBe(true)
    expect(verifyCheckpoint(note, { origin, keys: [key] }).size).toBe(5)
    const keys = witnesses.flatMap(one => one.keys)
    expect(verifyCosignatures(note, keys)).toHaveLength(2)
  })

  it('goes there again when it moved, with a proof from what was cosigned, and not sooner than in ten minutes', async () => {
    const owner = await seedOwner(database.db)
    const { outcomes } = rounds(addressOf(await startWitness()))
    for (const [count, size] of [
      [3, 3],
      [1, 4],
      [300, 304],
    ] as const) {
      await signed(owner, count)
      await dueNow(owner)
      await expect.poll(() => sizeOf(owner)).toBe(size)
      await expect.poll(async () => (await dueIn(owner))! > 500).toBe(true)
    }
    expect(outcomes).toEqual(['cosigned', 'cosigned', 'cosigned'])
  })

  it('that every witness has is due no more until it moves', async () => {
    const owner = await seedOwner(database.db)
    const { outcomes } = rounds(addressOf(await startWitness()))
    await signed(owner, 3)
    await dueNow(owner)
    await expect.poll(async () => ((await dueIn(owner)) ?? 0) > 500).toBe(true)
    await dueNow(owner)
    await expect.poll(() => dueIn(owner)).toBe(undefined)
    expect(outcomes).toEqual(['cosigned'])
  })

  it('goes to a witness that knows more of it than the authority remembers', async () => {
    const owner = await seedOwner(database.db)
    const witness = addressOf(await startWitness())
    const { outcomes } = rounds(witness)
    await signed(owner, 3)
    await dueNow(owner)
    // The round has ended: what it keeps last is kept.
    await expect.poll(async () => ((await dueIn(owner)) ?? 0) > 500).toBe(true)
    expect(await sizeOf(owner)).toBe(3)
    await sql`DELETE FROM witness_sizes WHERE owner = ${owner}`.execute(database.db)
    await signed(owner, 4)
    await dueNow(owner)
    await expect.poll(() => outcomes).toEqual(['cosigned', 'cosigned'])
    expect(await sizeOf(owner)).toBe(7)
    const { origin } = (await present(owner))!
    expect([...(await readWitnessSizes(database.db, owner, origin)).values()]).toEqual([7])
  })

  it('that moves during a round stays due, and one that does not is noted once', async () => {
    const owner = await seedOwner(database.db)
    const note = noteMovedHeads(database.db, createLogger({ name: 'authority', level: 'silent' }))
    note(owner)
    await expect.poll(async () => ((await dueIn(owner)) ?? 99) <= 5).toBe(true)
    await sql`UPDATE due SET at = '2100-01-01' WHERE owner = ${owner} AND kind = 'witness'`.execute(
      database.db,
    )
    note(owner)
    const other = noteMovedHeads(database.db, createLogger({ name: 'authority', level: 'silent' }))
    other(owner)
    const at = async () =>
      (
        await sql<{
          at: string
        }>`SELECT at::text FROM due WHERE owner = ${owner} AND kind = 'witness'`.execute(database.db)
      ).rows[0]!.at
    await expect.poll(at).toContain('2099-12-31 23:59:59.999999')
  })
})

test('A replica asks witnesses at most twenty times a second, whoever of it asks', async () => {
  const { turn } = createWitnessAsking({ witnesses: [] })
  const begun = performance.now()
  await Promise.all(Array.from({ length: 21 }, () => turn()))
  // A timer may be early by a part of a millisecond.
  expect(performance.now() - begun).toBeGreaterThanOrEqual(990)
})

describe('A witness that cosigns', () => {
  it('a hundred times in one answer leaves the head one that is verified', async () => {
    const owner = await seedOwner(database.db)
    const hundredfold = await startScriptedWitness({
      status: 200,
      body: (sent, own) => {
        const { text: head } = parseNote(sent.slice(sent.indexOf('\n\n') + 2))
        const lineAt = (time: number) => signatureLine(cosign(head, { name: SCRIPTED, key: own, time }))
        return Array.from({ length: 100 }, (_, n) => lineAt(1_000 + n)).join('')
      },
    })
    const { outcomes } = rounds(hundredfold)
    await signed(owner, 3)
    await dueNow(owner)
    await expect.poll(() => outcomes).toEqual(['cosigned'])
    const note = (await witnessed(owner))!
    const { origin } = (await present(owner))!
    expect(verifyCheckpoint(note, { origin, keys: [key] }).size).toBe(3)
    expect(verifyCosignatures(note, [hundredfold.key])).toEqual([{ witness: SCRIPTED, time: 1_099 }])
  })
})

describe('A witness that does not cosign', () => {
  it('and gives no answer delays no other, and is left out for a while', async () => {
    const [first, second] = [await seedOwner(database.db), await seedOwner(database.db)]
    const silent = await startScriptedWitness({ status: 503, body: '' })
    const { outcomes, lines } = rounds(silent, addressOf(await startWitness()))
    await signed(first, 3)
    await dueNow(first)
    await expect.poll(() => outcomes.toSorted()).toEqual(['cosigned', 'silent'])
    await signed(second, 3)
    await dueNow(second)
    await expect.poll(() => outcomes.toSorted()).toEqual(['cosigned', 'cosigned', 'silent'])
    expect([await sizeOf(first), await sizeOf(second)]).toEqual([3, 3])
    expect(silent.requests()).toBe(1)
    expect(lines.filter(line => line.includes('gives no answer'))).toHaveLength(1)
  })

  it('and gives no answer about a ledger of one cell is left out for a while in the others, too', async () => {
    const [first, second] = [await seedOwner(database.db), await seedOwner(database.db)]
    const silent = await startScriptedWitness({ status: 503, body: '' })
    const outcomes: WitnessOutcome[] = []
    const log = createLogger({ name: 'authority', level: 'silent' })
    const config = { issuer: WITNESSED, witnesses: [silent], devLoopback: true }
    const cells = [database, replica].map(of => ({ database: of, log }))
    const [one, other] = witnessingsOf(config, cells, outcome => void outcomes.push(outcome))
    await signed(first, 3)
    await dueNow(first)
    const asking = one!()
    await expect.poll(() => outcomes).toEqual(['silent'])
    await asking.stop()
    await signed(second, 3)
    await dueNow(second)
    const notAsking = other!()
    closers.push(() => notAsking.stop())
    await expect.poll(async () => (await dueIn(second))! > 500).toBe(true)
    expect([outcomes, silent.requests()]).toEqual([['silent'], 1])
  })

  it.each([403, 404, 400, 422])('and answers %d gets nothing more in that round', async status => {
    const owner = await seedOwner(database.db)
    const refusing = await startScriptedWitness({ status, body: '{}' })
    const { outcomes, lines } = rounds(refusing)
    await signed(owner, 3)
    await dueNow(owner)
    await expect.poll(() => outcomes).toEqual(['refused'])
    expect(refusing.requests()).toBe(1)
    const level = (JSON.parse(lines.find(line => line.includes(`"status":${status}`))!) as { level: unknown })
      .level
    expect(level).toBe(status === 422 ? 'error' : 'warn')
    expect(await witnessed(owner)).toBe(undefined)
  })

  it.each<[string, { status: number; body: string }]>([
    ['a line by another key', { status: 200, body: '— scripted.example AAAAAAAAAAAAAAAAAAAA\n' }],
    ['nothing', { status: 200, body: '' }],
    ['no size', { status: 409, body: 'newer\n' }],
  ])('but answers %s has said nothing', async (_what, answer) => {
    const owner = await seedOwner(database.db)
    const { outcomes } = rounds(await startScriptedWitness(answer))
    await signed(owner, 3)
    await dueNow(owner)
    await expect.poll(() => outcomes).toEqual(['silent'])
    expect(await witnessed(owner)).toBe(undefined)
  })

  it('because the replica ends first is not told of as silent, and another replica asks it soon', async () => {
    const owner = await seedOwner(database.db)
    const slow = await startScriptedWitness(undefined)
    const { outcomes, lines, stop } = rounds(slow)
    await signed(owner, 3)
    await dueNow(owner)
    await expect.poll(() => slow.requests()).toBe(1)
    await stop()
    expect([outcomes, lines]).toEqual([[], []])
    expect(await dueIn(owner)).toBeLessThanOrEqual(60)
  })

  it('because it has another tree of this size is told of as an error, and signing goes on', async () => {
    const owner = await seedOwner(database.db)
    const { outcomes, lines } = rounds(await startScriptedWitness({ status: 409, body: '3\n' }))
    await signed(owner, 3)
    await dueNow(owner)
    await expect.poll(() => outcomes).toEqual(['conflict'])
    expect(lines.filter(line => line.includes('has cosigned another tree'))).toHaveLength(1)
    await signed(owner, 1)
  })
})

describe('A witness that has cosigned more than there is', () => {
  it('ends signing at that origin, and nothing else', async () => {
    const owner = await seedOwner(database.db)
    const { outcomes, lines } = rounds(await startScriptedWitness({ status: 409, body: '4\n' }))
    await signed(owner, 3)
    const last = await present(owner)
    await dueNow(owner)
    await expect.poll(() => outcomes).toEqual(['lost'])
    expect(lines.filter(line => line.includes('commits were lost'))).toHaveLength(1)
    await append(owner, 5)
    await rested(owner)
    expect(await sign(owner)).toBe('lost')
    expect(await present(owner)).toEqual(last)
    const other = await seedOwner(database.db)
    await signed(other, 1)
  })

  it('ends nothing while the tree has as many, though the head that was sent has not', async () => {
    const owner = await seedOwner(database.db)
    const { outcomes } = rounds(await startScriptedWitness({ status: 409, body: '4\n' }))
    await signed(owner, 3)
    await append(owner, 1)
    await dueNow(owner)
    await expect.poll(() => outcomes).toEqual(['conflict'])
    await rested(owner)
    expect(await sign(owner)).toBe('signed')
  })

  it('ends what a replica signs at the same time', async () => {
    const owner = await seedOwner(database.db)
    await signed(owner, 3)
    const before = (await present(owner))!
    const { origin } = before
    expect(await loseOrigin(database.db, owner, { origin, size: 9 })).toBe(true)
    expect(await loseOrigin(database.db, owner, { origin, size: 10 })).toBe(false)
    await append(owner, 1)
    await rested(owner)
    expect(await sign(owner)).toBe('lost')
    // It has read the tree before the witness answered.
    const next = { ...before, size: 4 }
    expect(await keepCheckpoint(database.db, owner, next, { before, origin_at: null })).toBe(false)
    expect(await present(owner)).toEqual(before)
  })
})

describe('What is kept of cosigned heads', () => {
  it('is the newest one: an older one that comes later is left out', async () => {
    const owner = await seedOwner(database.db)
    const keep = (size: number, cosignatures: string) =>
      keepWitnessed(database.db, owner, { origin: 'o', size, note: `note ${size}\n`, cosignatures })
    await keep(5, 'a\n')
    await keep(4, 'b\n')
    expect(await readWitnessed(database.db, owner, 'o')).toBe('note 5\na\n')
    await keep(5, 'c\n')
    expect(await readWitnessed(database.db, owner, 'o')).toBe('note 5\na\nc\n')
    await keep(6, 'd\n')
    expect(await readWitnessed(database.db, owner, 'o')).toBe('note 6\nd\n')
  })
})
