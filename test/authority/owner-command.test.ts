/**
 * Owners without a restart: contract, "Parties" (owner's authorization server), "Grant (RPT) liveness". A
 * real authority serves while the command works on its database.
 */
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { holdLease } from '../support/lease-holder.ts'
import { authorityStand } from '../support/stands.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { protectionCall, testAgent } from '../support/test-agent.ts'
import { usherProgram } from '../support/usher-program.ts'

const CLI = usherProgram()
const run = promisify(execFile)

const authority = authorityStand()
const directory = temporaryFolder('owner-command')

const usher = (args: string[], env: Record<string, string>) =>
  run(process.execPath, [CLI, ...args], { env: { PATH: process.env['PATH'] ?? '', ...env } })
const owner = (...args: string[]) =>
  usher(['authority', 'owner', ...args], {
    DATABASE_URL: authority.database.url,
    UMA_AS_ARCHIVES: join(directory, 'archives'),
  })

describe('usher authority owner', () => {
  it('takes an owner from nothing to her archive, while the authority serves', async () => {
    expect((await owner('add', 'bea')).stdout).toContain('usher authority owner enrol bea')
    await expect(owner('add', 'bea')).rejects.toMatchObject({
      code: 1,
      stderr: expect.stringContaining('bea is served here already') as string,
    })
    const code = (await owner('enrol', 'bea')).stdout.trim()
    const hers = {
      UMA_OWNER_API: authority.ownerUrl,
      UMA_OWNER_ISSUER: authority.issuer,
      UMA_OWNER_KEY: join(directory, 'key.json'),
    }
    expect((await usher(['owner', 'enrol', '--code', code], hers)).stdout).toContain('decides for bea now')
    await expect(owner('enrol', 'bea')).rejects.toMatchObject({
      stderr: expect.stringContaining('--recover') as string,
    })
    expect((await owner('enrol', 'bea', '--recover')).stderr).toContain('unless she ends it')
    expect((await usher(['owner', 'recovery'], hers)).stdout).toContain('usher owner recovery cancel')
    expect((await usher(['owner', 'recovery', 'cancel'], hers)).stdout).toBe('The recovery is ended.\n')
    const file = join(directory, 'bea.ndjson')
    expect((await usher(['owner', 'export', file], hers)).stdout).toMatch(/^\d+ rows are in /)
    const kinds = readFileSync(file, 'utf8')
      .trimEnd()
      .split('\n')
      .map(line => JSON.parse(line) as { part: string; row: { kind?: string } })
      .flatMap(({ part, row }) => (part === 'ledger' ? [row.kind] : []))
    expect(kinds).toEqual(['credential_added', 'recovery_started', 'recovery_cancelled'])
    const removed = JSON.parse((await owner('remove', 'bea', '--json')).stdout) as Record<string, string>
    expect(removed).toMatchObject({ owner: 'bea' })
    expect(readFileSync(removed['archive']!, 'utf8')).toContain('"removed"')
    await expect(usher(['owner', 'pending'], hers)).rejects.toMatchObject({ code: 1 })
    const shown = JSON.parse((await owner('show', 'bea', '--json')).stdout) as object
    expect(shown).toMatchObject({ owner: 'bea', state: 'removed' })
    expect((await owner('list')).stdout).toMatch(/alice +active[^]*bea +removed/)
    await expect(owner('add', 'bea')).rejects.toMatchObject({
      stderr: expect.stringContaining('never given again') as string,
    })
  })

  it('says who is not served, and how owners are named', async () => {
    await expect(owner('show', 'nobody')).rejects.toMatchObject({ code: 2 })
    await expect(owner('add', 'a/b')).rejects.toMatchObject({ code: 2 })
  })
})

describe('An owner who is suspended', () => {
  it('lets no agent pass, whatever it was granted, until she is resumed', async () => {
    const agent = testAgent(authority)
    const { rpt } = await agent.granted()
    const waiting = await agent.ask('place_trade', { operation: { tool: 'place_trade', params: {} } })
    expect(waiting.body.error).toBe('request_submitted')
    const holder = await holdLease(authority)
    expect((await owner('suspend', 'alice')).stdout).toMatch(
      /Sidecars that let go of her grants in \d+ ms: 1 of 1[.]\n$/,
    )
    expect(holder.asked()).toBe(1)
    await holder.say({ end: true })
    holder.drop()
    expect((await protectionCall(authority, '/introspect', { token: rpt })).body).toMatchObject({
      active: false,
      reason: 'revoked',
    })
    const said = expect.stringContaining('suspended') as string
    const denied = await agent.present(await agent.ticket())
    expect(denied).toMatchObject({ status: 403, body: { error: 'request_denied', error_description: said } })
    const { body } = await authority.call(authority.alice, { target: '/owner/ledger?kind=suspended' })
    expect(body.entries).toMatchObject([{ by: 'authority', actor: { kind: 'authority' } }])
    await owner('resume', 'alice')
    expect((await protectionCall(authority, '/introspect', { token: rpt })).body).toMatchObject({
      active: false,
    })
    const again = await agent.granted()
    expect((await protectionCall(authority, '/introspect', { token: again.rpt })).body).toMatchObject({
      active: true,
    })
  })
})
