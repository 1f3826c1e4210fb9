/**
 * After a restore to an earlier time: contract, "Grant (RPT) liveness" (what was spent or revoked never lives
 * again). A real authority serves what the command left.
 */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { insertSessionKey, standingDeviceKeys } from '../../src/storage/authority/credentials/device-keys.ts'
import { appendEvent, startOfReading } from '../../src/storage/authority/ledger/events.ts'
import { readRecovery } from '../../src/storage/authority/credentials/recoveries.ts'
import { inTransaction } from '../../src/storage/core/database.ts'
import { generatePrivateJwk, importPrivateJwk, publicJwk } from '../../src/wire/signatures/keys.ts'
import type { Reply } from '../support/authority.ts'
import { authorityStand } from '../support/stands.ts'
import { decide, protectionCall, testAgent } from '../support/test-agent.ts'
import { usherProgram } from '../support/usher-program.ts'

const CLI = usherProgram()
const AT = '2026-11-01T00:00:00Z'

const authority = authorityStand()

const commandIn = (environment: Record<string, string>, ...args: string[]) =>
  promisify(execFile)(process.execPath, [CLI, 'authority', ...args], {
    env: { PATH: process.env['PATH'] ?? '', DATABASE_URL: authority.database.url, ...environment },
  })
const command = (...args: string[]) => commandIn({}, ...args)
const afterRestore = (...args: string[]) => command('after-restore', ...args)
/** In an hour, as a clock five hours ahead of UTC shows it. */
const later = (): string => `${new Date(Date.now() + 6 * 3_600_000).toISOString().slice(0, 19)}+05:00`
const introspected = async (rpt: string) =>
  (await protectionCall(authority, '/introspect', { token: rpt })).body

describe('usher authority after-restore', () => {
  it('ends every grant and connection, and what she approved is collected no more', async () => {
    const agent = testAgent(authority)
    const { rpt } = await agent.granted()
    const waiting = await agent.ask('place_trade', { operation: { tool: 'place_trade', params: {} } })
    expect(waiting.body.error).toBe('request_submitted')
    expect((await decide(authority, agent.handle, 'approved')).status).toBe(200)
    const said = await afterRestore('--at', AT)
    expect(said.stdout).toContain('Every grant has ended')
    expect(await introspected(rpt)).toMatchObject({ active: false })
    // She may have taken this approval back after the backup.
    expect((await agent.present(waiting.body.ticket)).body).toMatchObject({ error: 'request_denied' })
    const { body } = await authority.call(authority.alice, { target: '/owner/connections' })
    expect(body).toMatchObject([{ handle: agent.handle, status: 'revoked' }])
    expect(await introspected((await agent.granted()).rpt)).toMatchObject({ active: true })
  })

  it('tells each owner in her ledger from when the data is, at each run', async () => {
    expect(JSON.parse((await afterRestore('--at', AT, '--json')).stdout)).toEqual({
      owners: 1,
      connections: 1,
    })
    const { body } = await authority.call(authority.alice, { target: '/owner/ledger?kind=restored' })
    expect(body.entries.at(-1)).toMatchObject({
      by: 'authority',
      actor: { kind: 'authority' },
      at: '2026-11-01T00:00:00.000Z',
      connections: 1,
    })
  })

  it('does nothing if a synchronous standby is required and there is none, like every command of the operator', async () => {
    const environment = { UMA_AS_REQUIRE_SYNC_STANDBY: 'true', UMA_AS_DATABASE_WAIT_SECONDS: '0' }
    const restored = async () =>
      (await authority.call(authority.alice, { target: '/owner/ledger?kind=restored' })).body.entries
    const before = await restored()
    for (const args of [
      ['after-restore', '--at', AT],
      ['owner', 'suspend', 'alice'],
    ])
      await expect(commandIn(environment, ...args)).rejects.toMatchObject({
        stdout: '',
        stderr: expect.stringMatching(
          /UMA_AS_REQUIRE_SYNC_STANDBY: .*synchronous_standby_names of the primary is empty/,
        ) as string,
      })
    expect(await restored()).toEqual(before)
  })

  it('takes the time in any zone', async () => {
    await afterRestore('--at', '2026-11-01T05:30:00+05:30')
    const { body } = await authority.call(authority.alice, { target: '/owner/ledger?kind=restored' })
    expect(body.entries.at(-1)).toMatchObject({ at: '2026-11-01T00:00:00.000Z' })
  })

  it('voids every code and every key that a passkey let in, since nobody knows which ended after the backup', async () => {
    const { db } = authority.database
    await command('owner', 'enrol', 'alice', '--recover')
    expect(await readRecovery(db, authority.alice.owner)).toBeDefined()
    const { owner } = authority.alice
    const letIn = { owner, kid: 'let-in', jwk: { kid: 'let-in' }, name: 'page', passkey: 'p' }
    await inTransaction(db, tx => insertSessionKey(tx, { ...letIn, lifetimeSeconds: 3_600 }))
    expect(await standingDeviceKeys(db, owner)).toContainEqual(letIn.jwk)
    await command('owner', 'add', 'dora')
    const enrolled = async (code: string): Promise<Reply> => {
      const key = importPrivateJwk(generatePrivateJwk())
      const json = { code: code.trim(), name: 'laptop', jwk: publicJwk(key) }
      return authority.call(authority.alice, {
        method: 'POST',
        target: '/owner/enrolment',
        json,
        sign: { key },
      })
    }
    const { stdout: used } = await command('owner', 'enrol', 'dora')
    await afterRestore('--at', AT)
    expect(await readRecovery(db, owner)).toBeUndefined()
    expect(await standingDeviceKeys(db, owner)).not.toContainEqual(letIn.jwk)
    expect(await enrolled(used)).toMatchObject({ status: 401, body: { error: 'invalid_credential' } })
    const { stdout: fresh } = await command('owner', 'enrol', 'dora')
    expect((await enrolled(fresh)).status).toBeLessThan(300)
  })

  it('lets nobody resume her events past what was written there since', async () => {
    const { db } = authority.database
    const { owner } = authority.alice
    const { after } = await startOfReading(db, owner)
    // Who read two events more, which the restored database does not have.
    const known = after + 2
    await afterRestore('--at', AT)
    for (let n = 0; n < 3; n++) await inTransaction(db, tx => appendEvent(tx, owner, 'policy_changed', { n }))
    expect(await startOfReading(db, owner, known)).toMatchObject({ reset: true })
    expect(await startOfReading(db, owner, after)).toMatchObject({ reset: true })
    const { after: newest } = await startOfReading(db, owner)
    expect(await startOfReading(db, owner, newest)).toEqual({ after: newest, reset: false })
  })

  it.each([
    ['no time at all', 'yesterday', /time with its zone/],
    ['a time without a zone', '2026-11-01T00:00:00', /time with its zone/],
    ['a day that no month has', '2026-02-30T00:00:00Z', /time with its zone/],
    ['a time to come, in another zone', later(), /in the future/],
    ['a time to come', '2999-01-01T00:00:00Z', /in the future/],
  ])('refuses %s, and changes nothing', async (_, at, sentence) => {
    await expect(afterRestore('--at', at)).rejects.toMatchObject({
      code: 2,
      stderr: expect.stringMatching(sentence) as string,
    })
  })
})
