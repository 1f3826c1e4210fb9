/** `usher witness`: C2SP `tlog-witness`. docs/details/witness.md. Contract: "Events" (row 5). */
import { describe, expect, test } from 'vitest'
import { serveEndpoints } from '../../src/http/servers/endpoint.ts'
import { createHttpServer, listen, takeRawBodies } from '../../src/http/servers/server.ts'
import { createLogger } from '../../src/http/telemetry/log.ts'
import { createRateShares } from '../../src/limits/rate-shares.ts'
import { WITNESS_DATABASE } from '../../src/storage/witness/database.ts'
import { encodeAddCheckpoint } from '../../src/wire/ledger/add-checkpoint.ts'
import { signCheckpoint } from '../../src/wire/ledger/checkpoint.ts'
import { verifyCosignatures } from '../../src/wire/ledger/cosignature.ts'
import { signNote } from '../../src/wire/ledger/signed-note.ts'
import { generatePrivateJwk, importPrivateJwk, publicJwk } from '../../src/wire/signatures/keys.ts'
import { ADD_CHECKPOINT } from '../../src/witness/add-checkpoint.ts'
import { openedDatabase } from '../support/postgres.ts'
import { startedForEach, startedOnce } from '../support/started.ts'
import { bodyOf, issuerOf, LOG_KEY, ORIGIN, startTestWitness, treeOf, WITNESSED } from '../support/witness.ts'

const stranger = importPrivateJwk(generatePrivateJwk())
let logs = 0
/** A log that no other test has used. */
const newOrigin = () => `as.example/ledger/log-${++logs}`
const noteIn = (body: string) => body.slice(body.indexOf('\n\n') + 2)

describe('A witness', () => {
  const witness = startedOnce(() => startTestWitness({ keys: [generatePrivateJwk(), generatePrivateJwk()] }))

  test('cosigns the first checkpoint of a log, and each that continues the last, by each of its keys', async () => {
    const before = Math.floor(Date.now() / 1_000)
    for (const [from, size] of [
      [0, 3],
      [3, 4],
      [4, 200],
      [200, 200],
    ] as const) {
      const body = bodyOf(treeOf(size), from)
      const { status, headers, text } = await witness.add(body)
      expect([status, headers.get('content-type')]).toEqual([200, 'text/plain; charset=utf-8'])
      const cosigned = verifyCosignatures(noteIn(body) + text, witness.keys)
      expect(cosigned.map(one => one.witness)).toEqual(['witness.example', 'witness.example'])
      for (const { time } of cosigned) expect(time).toBeGreaterThanOrEqual(before - 2)
      expect(text.split('\n')).toHaveLength(3)
    }
  })

  test('answers 409 with the size of the last one where a proof begins elsewhere', async () => {
    const origin = newOrigin()
    const sizeOf = async (size: number, from: number) => {
      const { status, headers, text } = await witness.add(bodyOf(treeOf(size), from, { origin }))
      return [status, headers.get('content-type'), text]
    }
    const conflict = (size: number) => [409, 'text/x.tlog.size', `${size}\n`]
    expect(await sizeOf(5, 3)).toEqual(conflict(0))
    expect((await sizeOf(5, 0))[0]).toBe(200)
    expect(await sizeOf(9, 0)).toEqual(conflict(5))
    expect(await sizeOf(9, 7)).toEqual(conflict(5))
    // An older tree of the same log, which was right once.
    expect(await sizeOf(4, 0)).toEqual(conflict(5))
  })

  test('never cosigns another root of the same size: it is 409, counted and in the log with what was signed', async () => {
    const origin = newOrigin()
    await witness.add(bodyOf(treeOf(6), 0, { origin }))
    const fork = bodyOf(treeOf(6, 'other'), 6, { origin })
    const { status, text } = await witness.add(fork)
    expect([status, text]).toEqual([409, '6\n'])
    const line = witness.lines
      .map(one => JSON.parse(one) as Record<string, unknown>)
      .find(one => one['origin'] === origin)!
    expect(line).toMatchObject({
      size: 6,
      root: Buffer.from(treeOf(6, 'other').root).toString('base64'),
      cosigned_root: Buffer.from(treeOf(6).root).toString('base64'),
    })
    expect(noteIn(fork)).toContain(line['log_signed'] as string)
    const metrics = await (await fetch(`${witness.metricsUrl}/metrics`)).text()
    expect(metrics).toMatch(/^usher_witness_contradictions_total 1$/m)
    // What continues the tree that it cosigned is cosigned all the same.
    expect(await witness.add(bodyOf(treeOf(7), 6, { origin }))).toMatchObject({ status: 200 })
  })

  test('answers 422 to a proof that does not lead to the tree, and cosigns nothing', async () => {
    const origin = newOrigin()
    await witness.add(bodyOf(treeOf(6), 0, { origin }))
    const wrong = [
      bodyOf(treeOf(9, 'other'), 6, { origin }),
      bodyOf(treeOf(9), 6, { origin, proof: [] }),
      bodyOf(treeOf(9), 6, { origin, proof: treeOf(9, 'other').proofFrom(6) }),
    ]
    for (const body of wrong)
      expect(await witness.add(body)).toMatchObject({ status: 422, body: { error: 'invalid_request' } })
    expect(await witness.add(bodyOf(treeOf(9), 0, { origin }))).toMatchObject({ status: 409, text: '6\n' })
    const first = bodyOf(treeOf(9), 0, { origin: newOrigin(), proof: treeOf(9).proofFrom(6) })
    expect(await witness.add(first)).toMatchObject({ status: 422 })
  })

  test('answers 404 to an origin of nobody whom it knows, and 403 to a checkpoint that its log did not sign', async () => {
    const unknown = bodyOf(treeOf(3), 0, { origin: 'else.example/ledger/a' })
    expect(await witness.add(unknown)).toMatchObject({ status: 404, body: { error: 'not_found' } })
    const unsigned = bodyOf(treeOf(3), 0, { origin: newOrigin(), key: stranger })
    expect(await witness.add(unsigned)).toMatchObject({ status: 403, body: { error: 'invalid_signature' } })
  })

  test.each<[string, () => string | Uint8Array]>([
    ['is empty', () => ''],
    ['is JSON', () => '{"old": 0}'],
    ['is not in UTF-8', () => Buffer.from([0xff, 0xfe])],
    ['has no note', () => 'old 0\n\nnothing'],
    ['begins its proof beyond its tree', () => bodyOf(treeOf(3), 3).replace('old 3', 'old 4')],
    [
      'has an extension line',
      () =>
        `old 0\n\n${signNote(`${ORIGIN}\n3\n${Buffer.alloc(32).toString('base64')}\nmore\n`, { name: ORIGIN, key: LOG_KEY })}`,
    ],
    ['is longer than 128 KiB', () => `old 0\n\n${'x'.repeat(128 * 1_024)}`],
  ])('answers 400 to a body that %s', async (_what, body) => {
    expect(await witness.add(body())).toMatchObject({ status: 400, body: { error: 'invalid_request' } })
  })

  test('answers 413 to a body of more than 256 KiB', async () => {
    expect(await witness.add('x'.repeat(300_000))).toMatchObject({ status: 413 })
  })

  test.each([
    'application/json',
    'text/plain',
    'application/x-www-form-urlencoded',
    'application/octet-stream',
    'nonsense',
    '',
  ])('takes a body whatever type it is said to be: %j', async type => {
    const body = Buffer.from(bodyOf(treeOf(3), 0, { origin: newOrigin() }))
    expect(await witness.add(body, type === '' ? {} : { 'content-type': type })).toMatchObject({
      status: 200,
    })
  })

  test('takes the log of after a restore as another log', async () => {
    const origin = newOrigin()
    await witness.add(bodyOf(treeOf(6), 0, { origin }))
    const restored = bodyOf(treeOf(4), 0, { origin: `${origin}/1764374400` })
    expect(await witness.add(restored)).toMatchObject({ status: 200 })
  })

  test('serves health, and describes itself', async () => {
    expect((await fetch(`${witness.publicUrl}/health`)).status).toBe(200)
    expect((await fetch(`${witness.publicUrl}/ready`)).status).toBe(200)
    const document = (await (await fetch(`${witness.publicUrl}/openapi.json`)).json()) as { paths: object }
    expect(Object.keys(document.paths)).toContain('/add-checkpoint')
  })

  test('names its keys in the log as others are to name it', () => {
    const named = witness.lines
      .map(line => (JSON.parse(line) as { verifier_key?: string }).verifier_key)
      .filter(line => line !== undefined)
    expect(named).toHaveLength(2)
    for (const line of named) expect(line).toMatch(/^witness\.example\+[0-9a-f]{8}\+B/)
  })
})

describe('The bound on logs of one issuer', () => {
  const other = importPrivateJwk(generatePrivateJwk())
  const witness = startedForEach(() =>
    startTestWitness({
      issuers: [
        issuerOf({ max_origins: 2 }),
        issuerOf({ issuer: 'https://other.example', log_keys: [publicJwk(other)] }),
      ],
    }),
  )
  const first = (origin: string, key = LOG_KEY) => witness.add(bodyOf(treeOf(3), 0, { origin, key }))

  test('is kept, and those that it knows go on; another issuer has its own', async () => {
    expect(await first('as.example/ledger/a')).toMatchObject({ status: 200 })
    expect(await first('as.example/ledger/b')).toMatchObject({ status: 200 })
    expect(await first('as.example/ledger/c')).toMatchObject({ status: 404, body: { error: 'not_found' } })
    expect(await first('other.example/ledger/c', other)).toMatchObject({ status: 200 })
    const next = bodyOf(treeOf(9), 3, { origin: 'as.example/ledger/a' })
    expect(await witness.add(next)).toMatchObject({ status: 200 })
  })

  test('counts no log that was refused', async () => {
    for (let n = 0; n < 4; n++) {
      expect(await first('as.example/ledger/a', stranger)).toMatchObject({ status: 403 })
      const empty = signCheckpoint(
        { origin: `as.example/ledger/${n}`, size: 0, root: Buffer.alloc(32) },
        LOG_KEY,
      )
      const body = encodeAddCheckpoint({ oldSize: 0, proof: [], note: empty })
      expect(await witness.add(body)).toMatchObject({ status: 422 })
    }
    expect(await first('as.example/ledger/a')).toMatchObject({ status: 200 })
    expect(await first('as.example/ledger/b')).toMatchObject({ status: 200 })
  })
})

test('A witness that starts anew knows what it cosigned, and so does a second replica', async () => {
  const witness = await startTestWitness()
  const beside = await startTestWitness({ beside: witness })
  try {
    expect(await witness.add(bodyOf(treeOf(5), 0))).toMatchObject({ status: 200 })
    expect(await beside.add(bodyOf(treeOf(8, 'other'), 0))).toMatchObject({ status: 409, text: '5\n' })
    expect(await beside.add(bodyOf(treeOf(8), 5))).toMatchObject({ status: 200 })
    expect(await witness.add(bodyOf(treeOf(9), 5))).toMatchObject({ status: 409, text: '8\n' })
  } finally {
    await beside.close()
    await witness.close()
  }
})

test('One address may send so many signed checkpoints a minute, and is then told when it may again', async () => {
  const database = await openedDatabase('witness', url => WITNESS_DATABASE.open({ url, poolMax: 2 }))
  const logger = createLogger({ name: 'witness', level: 'silent' })
  const app = createHttpServer({ logger, bodyBytesMax: 1_024 })
  takeRawBodies(app)
  serveEndpoints(
    app,
    {
      issuer: 'https://witness.example',
      name: 'witness.example',
      keys: [],
      issuers: [{ issuer: WITNESSED, keys: [LOG_KEY], originsMax: 10 }],
      database,
      shares: createRateShares({ perMinute: 2, sourcesMax: 10, clock: () => 0 }),
      log: logger,
      countContradiction: () => undefined,
    },
    [ADD_CHECKPOINT],
  )
  try {
    const url = `http://${await listen(app, { host: '127.0.0.1', port: 0 })}/add-checkpoint`
    const add = (body: string) => fetch(url, { method: 'POST', body })
    const signed = bodyOf(treeOf(3), 1)
    const unsigned = bodyOf(treeOf(3), 1, { key: stranger })
    for (let n = 0; n < 5; n++) expect((await add(unsigned)).status).toBe(403)
    expect([(await add(signed)).status, (await add(signed)).status]).toEqual([409, 409])
    const refused = await add(signed)
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '30'])
    expect((await add(unsigned)).status).toBe(403)
  } finally {
    await app.close()
    await database.close()
  }
})
