/**
 * After a restore to an earlier time: contract, "Grant (RPT) liveness" (what was spent or revoked never lives
 * again). A real authority serves what the command left.
 */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startTestAuthority, type TestAuthority } from '../support/authority.ts'
import { decide, protectionCall, testAgent } from '../support/test-agent.ts'
import { usherProgram } from '../support/usher-program.ts'

const CLI = usherProgram()
const AT = '2026-11-01T00:00:00Z'

let authority: TestAuthority
beforeAll(async () => {
  authority = await startTestAuthority()
})
afterAll(() => authority.close())

const afterRestore = (...args: string[]) =>
  promisify(execFile)(process.execPath, [CLI, 'authority', 'after-restore', ...args], {
    env: { PATH: process.env['PATH'] ?? '', DATABASE_URL: authority.database.url },
  })
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

  it.each([
    ['no time at all', 'yesterday', /time with its zone/],
    ['a time without a zone', '2026-11-01T00:00:00', /time with its zone/],
    ['a time to come', '2999-01-01T00:00:00Z', /in the future/],
  ])('refuses %s, and changes nothing', async (_, at, sentence) => {
    await expect(afterRestore('--at', at)).rejects.toMatchObject({
      code: 2,
      stderr: expect.stringMatching(sentence) as string,
    })
  })
})
