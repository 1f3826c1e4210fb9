/**
 * A ledger that an owner exports as far as a witness has cosigned it, from a real authority that sends its
 * heads to a real witness: docs/proof.md, "Witnesses". Contract: "Events" (row 5), "Owner API".
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { fetchProofs } from '../../src/client/consistency-proofs.ts'
import { ledgerFileLines } from '../../src/owner/ledger-file.ts'
import { appendLedgerAll } from '../../src/storage/authority/ledger/ledger.ts'
import { verifyLedgerFile } from '../../src/terminal/verify-ledger.ts'
import { encodeVerifierKey } from '../../src/wire/ledger/verifier-key.ts'
import { publicJwk } from '../../src/wire/signatures/keys.ts'
import { startTestAuthority, type TestAuthority } from '../support/authority.ts'
import { capturedTerminal } from '../support/captured-terminal.ts'
import { configFolder } from '../support/config-files.ts'
import { withLogKeys } from '../support/log-keys.ts'
import { issuerOf, startTestWitness, type TestWitness } from '../support/witness.ts'

const log = withLogKeys()
const { folder } = configFolder()
let witness: TestWitness
let authority: TestAuthority
beforeAll(async () => {
  witness = await startTestWitness({ issuers: [issuerOf({ log_keys: log.keys.map(key => publicJwk(key)) })] })
  authority = await startTestAuthority({
    environment: {
      ...log.environment,
      UMA_DEV_LOOPBACK: 'true',
      UMA_AS_WITNESSES: `${witness.publicUrl} ${encodeVerifierKey(witness.keys[0]!)}`,
    },
  })
})
afterAll(async () => {
  await authority.close()
  await witness.close()
})

const witnessed = () => authority.call(authority.alice, { target: '/owner/ledger/checkpoint?witnessed=true' })

async function verify(text: string): Promise<{ code: number; printed: string }> {
  const terminal = capturedTerminal()
  const fileOf = (name: string, content: string): string => {
    writeFileSync(join(folder, name), content)
    return join(folder, name)
  }
  const keys = fileOf(
    'keys.json',
    JSON.stringify({
      issuer: authority.issuer,
      log_keys: log.keys.map(key => publicJwk(key)),
      witnesses: witness.keys.map(encodeVerifierKey),
    }),
  )
  const options = { terminal, now: 1_900_000_000, fetchProofs }
  const code = await verifyLedgerFile(fileOf('ledger.jsonl', text), { keys }, options).then(
    () => 0,
    (error: { code?: number }) => error.code ?? -1,
  )
  return { code, printed: terminal.printed }
}

describe('The head of a ledger that a witness has cosigned', () => {
  it('is exported with the ledger as far as that, and verified', async () => {
    const entries = Array.from({ length: 40 }, (_, n) => ({ kind: 'approved' as const, data: { n } }))
    await appendLedgerAll(authority.database.db, authority.alice.owner, entries)
    await authority.call(authority.alice, { target: '/owner/ledger/checkpoint' })
    await expect.poll(async () => (await witnessed()).status).toBe(200)
    const note = (await witnessed()).text
    // What comes after it is in no witnessed export.
    await appendLedgerAll(authority.database.db, authority.alice.owner, entries)
    const lines: string[] = []
    const { access } = authority.alice.client
    for await (const line of ledgerFileLines(access, undefined, { witnessed: true })) lines.push(line)
    expect((JSON.parse(lines[0]!) as { checkpoint: string }).checkpoint).toBe(note)
    const { code, printed } = await verify(lines.join(''))
    expect([code, printed]).toEqual([0, expect.stringContaining('\nwitness.example cosigned this head at 2')])
  })

  it('is counted, by what witnesses answered', async () => {
    const metrics = await (await fetch(`${authority.metricsUrl}/metrics`)).text()
    expect(metrics).toMatch(/^usher_witnesses_total\{outcome="cosigned"\} [1-9]/m)
  })

  it('takes no other word than true', async () => {
    const asked = await authority.call(authority.alice, {
      target: '/owner/ledger/checkpoint?witnessed=false',
    })
    expect(asked).toMatchObject({ status: 400, body: { error: 'invalid_request' } })
  })
})
