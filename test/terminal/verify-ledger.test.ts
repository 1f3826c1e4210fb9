/** `usher verify ledger`: docs/choices.md, "The file of a ledger". Contract: "Events" (row 5). */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { fetchProofs } from '../../src/client/consistency-proofs.ts'
import { planConsistency } from '../../src/rules/ledger/merkle.ts'
import { verifyLedgerFile, type VerifyLedgerOptions } from '../../src/terminal/verify-ledger.ts'
import { cosign } from '../../src/wire/ledger/cosignature.ts'
import type { LedgerFile, LedgerRecord } from '../../src/wire/ledger/ledger-file.ts'
import { parseNote, signatureLine } from '../../src/wire/ledger/signed-note.ts'
import { encodeVerifierKey } from '../../src/wire/ledger/verifier-key.ts'
import type { ReceiptClaims } from '../../src/wire/negotiation/receipt.ts'
import { signJws } from '../../src/wire/signatures/jws.ts'
import {
  generatePrivateJwk,
  importPrivateJwk,
  publicJwk,
  type PrivateKey,
} from '../../src/wire/signatures/keys.ts'
import {
  AGREEMENT,
  endOf,
  filesToVerify,
  KEYS,
  OTHER_KEY,
  RECEIPT_KEYS,
  signedReceipt,
} from '../support/ledger-to-verify.ts'
import {
  headOf,
  ledgerFileOf,
  ORIGIN,
  proofBy,
  recordOf,
  sampleEntries,
  textOf,
} from '../support/sample-ledger.ts'
import { startScriptedServer, type Reply } from '../support/scripted-http.ts'

const { folder, fileOf, linesOf } = filesToVerify('ledger')
const entries = sampleEntries(300)
const whole = ledgerFileOf(entries)

const exported = (file: LedgerFile | LedgerRecord): string => fileOf(textOf(file))
const heads = (...all: object[]) => [linesOf(...all.map(ledger_head => JSON.stringify({ ledger_head })))]
/** A file with a receipt for the agent of entry 5, five seconds after the first. */
const receiptFile = (claims: Partial<ReceiptClaims> = {}): string[] => [linesOf(signedReceipt(5, claims))]
/** The entries, of which the fifth promises what the receipt says. */
const promising = entries.with(4, {
  ...entries[4]!,
  data_text: JSON.stringify({ agreement: AGREEMENT.hash }),
})

const witness = importPrivateJwk(generatePrivateJwk())
/** The head of the whole ledger with cosignatures of witnesses, which have one name. */
const cosignedBy = (...keys: PrivateKey[]): string => {
  const { text } = parseNote(whole.checkpoint)
  const time = Date.parse('2026-11-29T00:00:00Z') / 1_000
  const lines = keys.map(key => signatureLine(cosign(text, { name: 'witness.example/w1', key, time })))
  return whole.checkpoint + lines.join('')
}
const withWitnesses = (...keys: PrivateKey[]) => ({
  ...KEYS,
  witnesses: keys.map(key => encodeVerifierKey({ name: 'witness.example/w1', type: 'cosignature', key })),
})

async function verify(path: string, options: Partial<VerifyLedgerOptions> = {}, keys: object = KEYS) {
  const where = { keys: fileOf(JSON.stringify(keys)), ...options }
  return endOf(terminal => verifyLedgerFile(path, where, { terminal, now: 1_800_000_000, fetchProofs }))
}

describe('The file of a ledger', () => {
  it('that is what its log signed is told as such, with the entries and the origin', async () => {
    const { code, printed } = await verify(exported(whole), { heads: heads(headOf(entries.slice(0, 9))) })
    expect([code, printed]).toEqual([
      0,
      expect.stringMatching(/^Entries 1 to 300 of as\.example\/ledger\/AbCdEfGhIjKl are what the log signed/),
    ])
  })

  it('whose entry was changed ends with 1, and the line names the entry and what to do', async () => {
    const changed = entries.with(41, { ...entries[41]!, data_text: '{}' })
    const { code, printed } = await verify(exported({ ...whole, entries: changed }))
    expect([code, printed]).toEqual([
      1,
      expect.stringMatching(/^entry: Entry 42 is not what was signed: .*Keep this file/),
    ])
  })

  it('is compared with heads, with an origin, with an issuer, and from a position on', async () => {
    const path = exported({ ...whole, entries: entries.slice(100) })
    expect((await verify(path)).printed).toMatch(/^gap: Entries 1 to 100 are absent.*--from 101/)
    expect(await verify(path, { from: 101 })).toMatchObject({ code: 0 })
    const fork = heads(headOf(sampleEntries(299).slice(1)))
    expect((await verify(path, { from: 101, heads: fork })).printed).toMatch(/^fork: .*:1 has another root/)
    expect((await verify(path, { from: 101, origin: `${ORIGIN}2` })).printed).toMatch(/^other_origin: /)
    const keys = { issuer: 'https://other.example', log_keys: KEYS.keys }
    expect((await verify(path, { from: 101 }, keys)).printed).toMatch(/^other_origin: .*other\.example/)
  })

  it('is refused with keys that did not sign it, and with a key in the file itself', async () => {
    const { code, printed } = await verify(exported(whole), {}, { keys: [publicJwk(OTHER_KEY)] })
    expect([code, printed]).toEqual([1, expect.stringMatching(/^unsigned: No key of the log that you have/)])
  })

  it('is judged by log_keys alone where the file of keys tells them apart', async () => {
    const apart = { issuer: 'https://as.example', log_keys: [publicJwk(OTHER_KEY)], keys: KEYS.keys }
    expect((await verify(exported(whole), {}, apart)).printed).toMatch(/^unsigned: /)
    expect(await verify(exported(whole), {}, { ...apart, log_keys: KEYS })).toMatchObject({ code: 0 })
  })

  it('with cosignatures names each known witness and its time, and says so where none cosigned it', async () => {
    const both = { ...whole, checkpoint: cosignedBy(witness, OTHER_KEY) }
    const { code, printed } = await verify(exported(both), {}, withWitnesses(witness))
    expect(code).toBe(0)
    expect(printed).toMatch(/\nwitness\.example\/w1 cosigned this head at 2026-11-29T00:00:00\.000Z: /)
    expect(printed).not.toContain('None of the witnesses')
    const stranger = importPrivateJwk(generatePrivateJwk())
    expect(await verify(exported(both), {}, withWitnesses(stranger))).toMatchObject({
      code: 0,
      printed: expect.stringContaining(
        'None of the witnesses that you named has cosigned this head.',
      ) as string,
    })
    expect((await verify(exported(both))).printed).not.toContain('witness')
  })

  it('with a cosignature that a known witness did not make ends with 1', async () => {
    const forged = {
      ...whole,
      checkpoint: cosignedBy(witness).replace(/(?<=w1 .{40})./, c => (c === 'A' ? 'B' : 'A')),
    }
    const { code, printed } = await verify(exported(forged), {}, withWitnesses(witness))
    expect([code, printed]).toEqual([
      1,
      expect.stringMatching(/^unsigned: What a witness is said to have signed/),
    ])
    expect(printed.split('\n')).toHaveLength(2)
  })

  it.each<[string, unknown]>([
    ['a key of a log', [encodeVerifierKey({ name: 'witness.example/w1', type: 'ed25519', key: OTHER_KEY })]],
    ['a key in another form', [publicJwk(OTHER_KEY)]],
    ['a line in place of a list', encodeVerifierKey({ name: 'w', type: 'cosignature', key: OTHER_KEY })],
  ])('is not judged by witnesses that are %s: that is wrong usage', async (_what, witnesses) => {
    const { code, said } = await verify(exported(whole), {}, { ...KEYS, witnesses })
    expect([code, said]).toEqual([2, expect.stringContaining('has `witnesses` that cannot be used')])
  })

  it('is not accused by a receipt that no key of the authority signed', async () => {
    const payload = { iss: 'https://as.example', agreement: 's256:none' }
    const receipt = signJws({ typ: 'myterms-receipt+jws', payload }, OTHER_KEY)
    const { code, printed } = await verify(exported(whole), { receipts: [fileOf(`${receipt}\n`)] })
    expect(code).toBe(1)
    expect(printed).toMatch(/^unsigned: The receipt of .*:1 says nothing/)
    expect(printed).not.toContain('omission')
  })

  it('that lacks what a receipt promises is told so: which receipt, and what to do', async () => {
    const receipts = receiptFile()
    const { code, printed } = await verify(exported(whole), { receipts }, RECEIPT_KEYS)
    expect([code, printed]).toEqual([
      1,
      expect.stringMatching(
        /^omission: The receipt of .*:1 has no entry `promised` in this ledger, which has later entries: .*Show the receipt/,
      ),
    ])
    expect(printed.split('\n')).toHaveLength(2)
    expect(await verify(exported(ledgerFileOf(promising)), { receipts }, RECEIPT_KEYS)).toMatchObject({
      code: 0,
    })
  })

  it.each<[string, () => string, object, RegExp]>([
    ['that is not there', () => join(folder, 'none'), KEYS, /none cannot be read/],
    ['that is none', () => fileOf('{"seq":1}\n'), KEYS, /Line 1 is none of a ledger's file/],
    ['that is empty', () => fileOf(''), KEYS, /The file is empty/],
    ['with a file of keys without keys', () => exported(whole), { keys: [] }, /list `keys` is empty\. Give/],
    ['with empty log_keys', () => exported(whole), { ...KEYS, log_keys: [] }, /holds no Ed25519 key/],
    ['with keys of another kind', () => exported(whole), { keys: [{ kty: 'RSA' }] }, /none of the 1 in its/],
    ['with keys within a document', () => exported(whole), { jwks: KEYS }, /one step too deep, in `jwks`\./],
    ['with a JWKS for its keys', () => exported(whole), { keys: { keys: [] } }, /too deep, in `keys`\./],
    ['with a list alone', () => exported(whole), [], /is no object with a list `keys`\./],
    ['with another issuer', () => exported(whole), { ...KEYS, issuer: 1 }, /its `issuer` is no text\./],
  ])('%s is wrong usage', async (_what, path, keys, sentence) => {
    const { code, said } = await verify(path(), {}, keys)
    expect([code, said]).toEqual([2, expect.stringMatching(sentence)])
  })

  it('of which more is to be absent than its head covers is wrong usage', async () => {
    const { code, said } = await verify(exported(whole), { from: 301 })
    expect([code, said]).toEqual([2, expect.stringContaining('it has 300')])
  })

  it('in another encoding is wrong usage', async () => {
    const path = join(folder, 'latin.jsonl')
    writeFileSync(path, Buffer.from([0x7b, 0xe9, 0x7d]))
    expect(await verify(path)).toMatchObject({ code: 2, said: expect.stringContaining('no text in UTF-8') })
  })
})

describe('The file of the record of one agent', () => {
  const record = recordOf(entries, 'jkt:0')

  it('that is what its log signed is told as such, and what it does not prove', async () => {
    const { code, printed } = await verify(exported(record))
    expect([code, printed]).toEqual([
      0,
      expect.stringMatching(
        /^The 75 entries of jkt:0 from 1 to 297 of as\.example\/ledger\/AbCdEfGhIjKl are what the log signed, none of that agent is absent between them/,
      ),
    ])
    expect(printed).toMatch(/\nThat is one chain\. .*never entered, it proves nothing\.\n$/)
    expect((await verify(exported(whole))).printed).toMatch(
      /\nIt proves nothing of what came after this head, and nothing of what was never entered\.\n$/,
    )
  })

  it('of which an entry was changed, or left out, ends with 1, and the line names the entry', async () => {
    const [, second, third] = record.entries
    const spoiled = { ...record, entries: record.entries.with(1, { ...second!, kind: 'approved' }) }
    expect(await verify(exported(spoiled))).toMatchObject({
      code: 1,
      printed: expect.stringMatching(/^proof: Entry 5 is not what was signed, .*Keep this file/),
    })
    const less = { ...record, entries: record.entries.filter(({ seq }) => seq !== third!.seq) }
    expect(await verify(exported(less))).toMatchObject({
      code: 1,
      printed: expect.stringMatching(/^gap: Entry 9 is absent, which entry 13 names as the one before it/),
    })
    const rest = exported({ ...record, entries: record.entries.slice(2) })
    expect((await verify(rest)).printed).toMatch(/^gap: Entry 5 is absent.*--from 9/)
    expect(await verify(rest, { from: 9 })).toMatchObject({ code: 0 })
    expect(await verify(rest, { from: 298 })).toMatchObject({
      code: 2,
      printed: '',
      said: expect.stringContaining('its last entry is 297'),
    })
  })

  it('has what the receipts of that agent promise; the heads in them are no heads to compare with', async () => {
    const receipts = receiptFile({ ledger_head: headOf(entries.slice(0, 4)) })
    expect(await verify(exported(record), { receipts }, RECEIPT_KEYS)).toMatchObject({
      code: 1,
      printed: expect.stringMatching(/^omission: The receipt of .*:1 .* in this record of jkt:0/),
    })
    const kept = exported(recordOf(promising, 'jkt:0'))
    expect(await verify(kept, { receipts }, RECEIPT_KEYS)).toMatchObject({ code: 0 })
    expect(await verify(kept, { receipts, heads: receipts }, RECEIPT_KEYS)).toMatchObject({
      code: 1,
      printed: expect.stringMatching(/^unproved: The head of .*:1 covers 4 entries/),
    })
  })
})

describe('A head that covers more than the file', () => {
  const older = ledgerFileOf(entries.slice(0, 200))
  const later = headOf(entries)
  const hashes = proofBy(planConsistency(200, 300), whole.tiles)
  const proof = hashes.map(hash => hash.toString('base64url'))

  const asked = async (reply: Reply) => {
    const server = await startScriptedServer(() => reply)
    onTestFinished(() => server.close())
    const { code, printed, said } = await verify(exported(older), {
      heads: heads(later),
      fetch: `${server.origin}/as`,
    })
    return { code, printed, said, received: server.received }
  }

  it('is a rollback for all that the file proves: the line says how to find out', async () => {
    const { code, printed } = await verify(exported(older), { heads: heads(later) })
    expect([code, printed]).toEqual([1, expect.stringMatching(/^rollback: .* covers 300 .*--fetch/)])
  })

  it('is in order once its authority proves it, which is asked about both heads by the tag', async () => {
    const { code, received } = await asked({ body: { proof } })
    expect(code).toBe(0)
    expect(received.map(({ method, path }) => `${method} ${path}`)).toEqual([
      'POST /as/ledger/AbCdEfGhIjKl/consistency',
    ])
    expect(JSON.parse(received[0]!.body.toString())).toEqual({
      from: { size: 200, root: headOf(entries.slice(0, 200)).root },
      to: { size: 300, root: later.root },
    })
    expect(received[0]!.headers.authorization).toBeUndefined()
  })

  it.each<[string, Reply]>([
    ['has no proof', { status: 404, body: { error: 'not_found', error_description: 'Give two heads.' } }],
    ['answers with a false one', { body: { proof: proof.toReversed() } }],
  ])('stays a rollback where the authority %s', async (_what, reply) => {
    expect(await asked(reply)).toMatchObject({ code: 1, printed: expect.stringMatching(/^rollback: /) })
  })

  it.each<[string, Reply]>([
    ['is out of order', { status: 503, body: { error: 'temporarily_unavailable' } }],
    ['is asked too often', { status: 429, body: { error: 'temporarily_unavailable' } }],
    ['answers with something else', { body: 'a page' }],
    ['answers with half a proof', { body: { proof: ['AAAA'] } }],
    [
      'has no log',
      { status: 404, body: { error: 'not_found', error_description: 'Nothing is served at this path.' } },
    ],
    ['leads elsewhere', { status: 302, headers: { location: 'https://as.example/' } }],
    ['cuts the connection', { write: response => void response.destroy() }],
  ])('accuses nobody where the authority %s: the command ends with 3', async (_what, reply) => {
    const { code, printed, said } = await asked(reply)
    expect([code, printed]).toEqual([3, ''])
    expect(said).toMatch(/^http:\/\/127\.0\.0\.1:\d+ (answered|serves no proofs|cannot be asked)/)
  })

  it('stays a rollback where the authority has no proof, also if it answers about no other head', async () => {
    const other = headOf(entries.slice(0, 250))
    let requests = 0
    const server = await startScriptedServer(() =>
      ++requests === 1
        ? { status: 404, body: { error: 'not_found', error_description: 'Give two heads.' } }
        : { status: 503, body: { error: 'temporarily_unavailable' } },
    )
    onTestFinished(() => server.close())
    const beside = { heads: heads(later, other), fetch: `${server.origin}/as` }
    const { code, printed, said } = await verify(exported(older), beside)
    expect([code, printed, said]).toEqual([
      1,
      expect.stringMatching(/^rollback: .* covers 300 [^\n]*\n$/),
      expect.stringContaining('answered with status 503'),
    ])
  })

  it('or less than the record of an agent is in order once its authority proves it', async () => {
    const older = headOf(entries.slice(0, 200))
    const server = await startScriptedServer(() => ({ body: { proof } }))
    onTestFinished(() => server.close())
    const beside = { heads: heads(older), fetch: `${server.origin}/as` }
    const record = exported(recordOf(entries, 'jkt:0'))
    expect((await verify(record, { heads: heads(older) })).printed).toMatch(/^unproved: .*--fetch/)
    expect(await verify(record, beside)).toMatchObject({ code: 0 })
    expect(JSON.parse(server.received[0]!.body.toString())).toEqual({
      from: { size: 200, root: older.root },
      to: { size: 300, root: later.root },
    })
  })

  it('is asked about under https, or on this machine', async () => {
    const { code, said } = await verify(exported(older), {
      heads: heads(later),
      fetch: 'http://as.example',
    })
    expect([code, said]).toEqual([2, expect.stringContaining('an https URL')])
  })
})
