/**
 * `usher doctor` of an authority looks at the witnesses that it names, and of a witness at that:
 * docs/details/ledger.md, "Witnesses". Contract: "Events" (row 5). Each is a real one.
 */
import { sql } from 'kysely'
import { afterAll, describe, expect, it } from 'vitest'
import { askWitness } from '../../src/authority/ledger/witness-client.ts'
import { freePorts } from '../../src/dev/stack/ports.ts'
import { createOutbound } from '../../src/http/outbound/outbound.ts'
import { planConsistency, proofOf } from '../../src/rules/ledger/merkle.ts'
import { readTiles } from '../../src/storage/authority/ledger/ledger-tiles.ts'
import { keepWitnessed, keepWitnessSize } from '../../src/storage/authority/ledger/ledger-witnesses.ts'
import { encodeVerifierKey, type VerifierKey } from '../../src/wire/ledger/verifier-key.ts'
import { generatePrivateJwk, importPrivateJwk, publicJwk } from '../../src/wire/signatures/keys.ts'
import { configFolder } from '../support/config-files.ts'
import { doctor } from '../support/doctor.ts'
import { ledgerStand } from '../support/ledger-stand.ts'
import { withLogKeys } from '../support/log-keys.ts'
import { startScriptedServer } from '../support/scripted-http.ts'
import { seedOwner } from '../support/seed.ts'
import { issuerOf, startTestWitness, type TestWitness } from '../support/witness.ts'

const { database, key, append, sign, present, rested } = ledgerStand()
const { keysFile } = configFolder()
const outbound = createOutbound({ devLoopback: true })
const closers = [() => outbound.close()]
afterAll(async () => {
  for (const close of closers) await close()
})

const started = async (changes: object = {}): Promise<TestWitness> => {
  const witness = await startTestWitness({ issuers: [issuerOf({ log_keys: [publicJwk(key)], ...changes })] })
  closers.push(() => witness.close())
  return witness
}
const stranger = publicJwk(importPrivateJwk(generatePrivateJwk()))

/** A signed head of another owner, of three entries. */
async function signedHead() {
  const owner = await seedOwner(database.db)
  await append(owner, 3)
  expect(await sign(owner)).toBe('signed')
  return { owner, ...(await present(owner))! }
}
type Head = Awaited<ReturnType<typeof signedHead>>

/** As a round leaves it: the witness has cosigned the head. */
async function cosigned(witness: TestWitness): Promise<Head> {
  const head = await signedHead()
  const { owner, origin, size, note } = head
  const [named] = witness.keys
  const request = { oldSize: 0, proof: [], note }
  const answer = await askWitness(outbound, { url: witness.publicUrl, key: named! }, request)
  if (answer.kind !== 'cosigned') throw new Error(`it answered ${answer.kind}`)
  await keepWitnessed(database.db, owner, { origin, size, note, cosignatures: answer.line })
  await known(head, named!)
  return head
}
/** As a round leaves it: the witness is known to have a head of this size. */
const known = ({ owner, origin, size }: Head, { key: of }: Pick<VerifierKey, 'key'>) =>
  keepWitnessSize(database.db, owner, { origin, witness: of.thumbprint, size })

/** What the doctor says of a witness at this address with this key. */
async function looked(url: string, named: Parameters<typeof encodeVerifierKey>[0]): Promise<string[]> {
  const { lines } = await doctor({
    UMA_DEV_LOOPBACK: 'true',
    DATABASE_URL: database.url,
    UMA_AS_ISSUER: 'http://127.0.0.1:1',
    UMA_AS_KEYS_FILE: keysFile,
    UMA_AS_WITNESSES: `${url} ${encodeVerifierKey(named)}`,
    ...withLogKeys().environment,
  })
  return lines.filter(line => line.includes('authority witness'))
}
const lookedAt = ({ publicUrl, keys }: TestWitness): Promise<string[]> => looked(publicUrl, keys[0]!)

describe('usher doctor of an authority looks at a witness', () => {
  it('that cosigned a head by the configured key, and says when that was and how many entries the head has', async () => {
    const witness = await started()
    await cosigned(witness)
    expect(await lookedAt(witness)).toEqual([
      expect.stringMatching(
        /^ok {4}authority witness http\S+: it cosigns by the key that is configured; .* is of \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.000Z, over 3 entries$/,
      ),
    ])
  })

  it('that has cosigned a newer head than the one that is kept', async () => {
    const witness = await started()
    const { owner } = await cosigned(witness)
    await append(owner, 1)
    await rested(owner)
    expect(await sign(owner)).toBe('signed')
    const { note } = (await present(owner))!
    const plan = planConsistency(3, 4)
    const proof = proofOf(plan, await readTiles(database.db, owner, plan.tiles))
    const [named] = witness.keys
    const answer = await askWitness(
      outbound,
      { url: witness.publicUrl, key: named! },
      { oldSize: 3, proof, note },
    )
    expect(answer.kind).toBe('cosigned')
    expect(await lookedAt(witness)).toEqual([
      expect.stringMatching(/^ok .*: it is reached, and has a newer head; .*, over 3 entries$/),
    ])
  })

  it('that has cosigned nothing yet', async () => {
    expect(await lookedAt(await started())).toEqual([
      expect.stringMatching(/^ok .*: it is reached, and has cosigned no head of a ledger yet$/),
    ])
  })

  it('that cosigns by another key than the one that is configured', async () => {
    const witness = await started()
    const head = await cosigned(witness)
    const named = { ...witness.keys[0]!, key: importPrivateJwk(generatePrivateJwk()) }
    // It answered that it knows the head, and no cosignature of it held.
    await known(head, named)
    const [line] = await looked(witness.publicUrl, named)
    const id = encodeVerifierKey(named).split('+').slice(0, 2).join('+')
    expect(line).toMatch(/^FAIL .*usher witness keys.*correct UMA_AS_WITNESSES/)
    expect(line).toContain(id)
  })

  it('that does not take the heads it is sent, and says how many it lacks', async () => {
    const witness = await started()
    await cosigned(witness)
    const { owner } = await signedHead()
    await sql`UPDATE ledger_checkpoints SET signed_at = signed_at - interval '61 minutes'
      WHERE owner = ${owner}`.execute(database.db)
    // Not sent so far, because the ledger has not changed since the witness was named.
    expect(await lookedAt(witness)).toEqual([expect.stringMatching(/^ok /)])
    await sql`INSERT INTO due (owner, kind, at) VALUES (${owner}, 'witness', clock_timestamp())`.execute(
      database.db,
    )
    expect(await lookedAt(witness)).toEqual([
      expect.stringMatching(
        /^FAIL .*by the key that is configured.* signed over an hour ago are not there, of so many ledgers: 1\. The log of the authority/,
      ),
    ])
    await sql`DELETE FROM due WHERE owner = ${owner}`.execute(database.db)
  })

  it('that has forgotten what it cosigned', async () => {
    const forgetful = await started()
    const head = await signedHead()
    await known(head, forgetful.keys[0]!)
    expect(await lookedAt(forgetful)).toEqual([
      expect.stringMatching(
        /^FAIL .*forgotten a head of 3 entries, and names one of 0: .*details\/witness\.md/,
      ),
    ])
  })

  it.each([
    ['knows no ledger of the issuer', { issuer: 'https://other.example' }, /adds the issuer to its file/],
    [
      'takes other keys of the log',
      { log_keys: [stranger] },
      /puts the keys of \/ledger\/jwks into its file/,
    ],
  ])('that %s', async (_what, changes, remedy) => {
    const witness = await started(changes)
    await known(await signedHead(), witness.keys[0]!)
    expect(await lookedAt(witness)).toEqual([expect.stringMatching(remedy)])
  })

  it('that is not there, or is something else, and names the setting', async () => {
    const { keys } = await started()
    const other = await startScriptedServer(() => undefined)
    closers.push(() => other.close())
    expect(await looked('http://127.0.0.1:1', keys[0]!)).toEqual([
      expect.stringMatching(/^FAIL .*correct UMA_AS_WITNESSES/),
    ])
    expect(await looked(other.origin, keys[0]!)).toEqual([
      expect.stringMatching(/^FAIL .*answers with status 404 .*Correct UMA_AS_WITNESSES/),
    ])
  })
})

describe('usher doctor of a witness', () => {
  it('looks at its database, at the address that logs send to, and says how others name it', async () => {
    const [port] = await freePorts(1)
    const issuer = `http://127.0.0.1:${port}`
    const witness = await startTestWitness({
      environment: {
        UMA_DEV_LOOPBACK: 'true',
        UMA_WITNESS_ISSUER: issuer,
        UMA_WITNESS_LISTEN: `127.0.0.1:${port}`,
      },
    })
    closers.push(() => witness.close())
    const { code, lines } = await doctor(witness.environment)
    expect([code, lines]).toEqual([
      0,
      [
        expect.stringMatching(/^ok {4}witness settings: /),
        expect.stringMatching(/^ok {4}witness database: it takes writes and is up to date/),
        expect.stringMatching(/^ok {4}witness clock: /),
        `ok    witness address: ${issuer} is reached, and takes the heads of logs`,
        `ok    witness keys: others name it ${encodeVerifierKey(witness.keys[0]!)}`,
      ],
    ])
    const elsewhere = { ...witness.environment, UMA_WITNESS_ISSUER: 'http://127.0.0.1:1' }
    expect((await doctor(elsewhere)).lines).toContainEqual(
      expect.stringMatching(/^FAIL {2}witness address: .*correct UMA_WITNESS_ISSUER/),
    )
  })
})
