/**
 * Calls at a real enforcement point, judged by the revocation that a real authority signed, by the command
 * that strangers run: docs/proof.md, "Calls after a revocation". Contract: "What the service does" (row 9:
 * revocation is immediate), "Events" (one log line per decision).
 */
import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readRecordedCall } from '../../src/wire/ledger/recorded-call.ts'
import { publicJwk } from '../../src/wire/signatures/keys.ts'
import { callOf, startCore, verdict, type Core } from '../enforcement/calls.ts'
import type { TestAuthority } from '../support/authority.ts'
import { configFolder } from '../support/config-files.ts'
import { startEnforcedAuthority } from '../support/enforced-authority.ts'
import { withLogKeys } from '../support/log-keys.ts'
import { testAgent, type TestAgent } from '../support/test-agent.ts'
import { until } from '../support/until.ts'
import { usherProgram } from '../support/usher-program.ts'

type Line = Record<string, unknown> & { iat: number; judged: { ends: number; at: number } }

const log = withLogKeys()
const { folder } = configFolder()
let authority: TestAuthority
let core: Core
let agent: TestAgent
let revocation: string
/** What the log has of calls: before the revoke, after it, and after the agent was admitted again. */
let [before, refused, admitted]: Line[] = []

beforeAll(async () => {
  authority = await startEnforcedAuthority(log.environment)
  core = startCore(authority.issuer, { secret: authority.alice.clientSecret, deadlineMs: 20_000 })
  agent = testAgent(authority)
  const { rpt } = await agent.granted()
  before = await called(rpt, 'allow')
  revocation = await revoked()
  refused = await called(rpt, '403 access_revoked')
  admitted = await called((await agent.granted()).rpt, 'allow')
})
afterAll(async () => {
  await core?.close()
  await authority?.close()
})

/** The line that the call left in the log of the enforcement point. */
async function called(token: string, expected: string): Promise<Line> {
  expect(verdict(await core.decide(callOf({ token, signer: agent.key })))).toBe(expected)
  return core.lines.at(-1) as Line
}

/** She revokes the agent; as soon as the revocation is signed, it is there. */
async function revoked(): Promise<string> {
  const own = async (method: 'GET' | 'POST', target: string, json?: object) =>
    (await authority.call(authority.alice, { method, target, ...(json && { json }) })).body as {
      revocation_jti: string
      revocation: string | null
    }
  const { revocation_jti: jti } = await own('POST', '/owner/connections/revoke', { handle: agent.handle })
  const signed = async () => (await own('GET', `/owner/revocations/${jti}`)).revocation
  await until(async () => (await signed()) !== null)
  return (await signed())!
}

const fileOf = (name: string, text: string): string => {
  writeFileSync(join(folder, name), text)
  return join(folder, name)
}
/** As if the grant of before were two minutes older than it is. */
const aged = (line: Line): Line => ({ ...line, iat: line.iat - 120 })

async function judged(...lines: object[]): Promise<{ code: number; printed: string }> {
  const keys = {
    issuer: authority.issuer,
    keys: authority.config.keys.map(key => publicJwk(key)),
    log_keys: log.keys.map(key => publicJwk(key)),
  }
  const args = [
    'verify',
    'revocation',
    fileOf('revocation.jwt', `${revocation}\n`),
    '--calls',
    fileOf('calls.jsonl', lines.map(line => `${JSON.stringify(line)}\n`).join('')),
    '--keys',
    fileOf('keys.json', JSON.stringify(keys)),
  ]
  return new Promise(resolve => {
    execFile(
      process.execPath,
      [usherProgram(), ...args],
      { env: { PATH: process.env['PATH'] ?? '' } },
      (error, out, said) => resolve({ code: Number(error?.code ?? 0), printed: `${out}${said}` }),
    )
  })
}

describe('The log of an enforcement point', () => {
  it('has what a call is judged by, of each that was let through', () => {
    expect(readRecordedCall(JSON.stringify(before))).toMatchObject({
      decision: 'allow',
      owner: 'alice',
      handle: agent.handle,
      issuer: authority.issuer,
      iat: before!.iat,
      judged: before!.judged,
    })
    expect(admitted!.judged.ends).toBeGreaterThan(before!.judged.ends)
    expect(refused).not.toHaveProperty('judged')
    expect(refused).not.toHaveProperty('issuer')
  })

  it('convicts nobody where both are honest, also by calls of an agent that was admitted again', async () => {
    const { code, printed } = await judged(aged(before!), refused!, admitted!)
    expect(printed).toContain('whose head the log signed')
    expect(printed).toContain('Calls judged: 1 (in order 1,')
    expect(printed).toContain('1 of grants that may be of after it, 1 that were refused')
    expect(code).toBe(0)
  })

  it('convicts an authority that found the ended grant live', async () => {
    const { code, printed } = await judged({ ...aged(before!), judged: admitted!.judged })
    expect(printed).toMatch(/^authority at fault: .*calls\.jsonl:1: /m)
    expect(code).toBe(1)
  })

  it('convicts nobody by what another authority judged', async () => {
    const elsewhere = { ...aged(before!), judged: admitted!.judged, issuer: 'https://other.example' }
    const { code, printed } = await judged(elsewhere)
    expect(printed).toContain('Not judged: 1 that another authority judged')
    expect(code).toBe(0)
  })

  it('convicts an enforcement point that relied on an answer for ten minutes', async () => {
    const later = new Date(before!.judged.at + 600_000).toISOString()
    const { code, printed } = await judged({ ...aged(before!), time: later })
    expect(printed).toMatch(/^enforcement point at fault: .*calls\.jsonl:1: /m)
    expect(code).toBe(1)
  })
})
