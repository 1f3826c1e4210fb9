/**
 * A sidecar killed outright while calls go on: contract, "Events", 2, and the choices on `reports.state_dir`.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { join } from 'node:path'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { inTransaction } from '../../src/storage/core/database.ts'
import { tellSilent } from '../../src/storage/authority/ledger/report-instances.ts'
import { asOwner } from '../../src/wire/identifiers.ts'
import { callOf } from '../enforcement/calls.ts'
import { CLIENT_ID, type TestAuthority } from '../support/authority.ts'
import { checkBytes, connect, type CheckClient } from '../support/check-client.ts'
import { startEnforcedAuthority } from '../support/enforced-authority.ts'
import { sidecarSettings, writeSidecarFiles } from '../support/sidecar.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { testAgent, type TestAgent } from '../support/test-agent.ts'
import { until } from '../support/until.ts'
import { usherProgram } from '../support/usher-program.ts'

let authority: TestAuthority
let agent: TestAgent
let token: string
const directory = temporaryFolder('killed')
const children: ChildProcess[] = []

beforeAll(async () => {
  authority = await startEnforcedAuthority()
  agent = testAgent(authority)
  token = (await agent.granted()).rpt
})
afterAll(async () => {
  for (const child of children) child.kill('SIGKILL')
  await authority.close()
})

interface Running {
  child: ChildProcess
  client: CheckClient
}

/** A separate process, when it serves. */
async function start(more: object = {}): Promise<Running> {
  const socket = `unix:${join(directory, `check-${children.length}`)}`
  const settings = sidecarSettings({ directory, authority }, { check: socket, http: '127.0.0.1:0' })
  const [alice] = settings['owners'] as object[]
  const credential = { client_id: CLIENT_ID, client_secret: authority.alice.clientSecret }
  const owners = [{ ...alice, ...credential }]
  const file = await writeSidecarFiles(directory, { ...settings, owners, deadline_ms: 30_000, ...more })
  const child = spawn(process.execPath, [usherProgram(), 'sidecar', '--config', file], {
    env: { ...process.env, UMA_DEV_LOOPBACK: 'true' },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  children.push(child)
  let said = ''
  child.stdout.on('data', (chunk: Buffer) => (said += chunk.toString()))
  await until(() => said.includes('"msg":"serving"'))
  return { child, client: connect(socket) }
}

type Entry = { seq: number; instance: string; n: number; after?: number }
/** What her ledger holds of a kind, behind the entry `since`. */
async function ledger(kind: string, since = 0): Promise<Entry[]> {
  const target = `/owner/ledger?kind=${kind}&limit=1000`
  const { body } = await authority.call(authority.alice, { target })
  return (body.entries as Entry[]).filter(({ seq }) => seq > since)
}
const lastSeq = async () => Math.max(0, ...(await ledger('touched')).map(({ seq }) => seq))

const CALLERS = 8

/**
 * Lets calls through until `enough` says so or the process is gone. @returns how many, as their callers saw
 * it.
 */
async function load({ client }: Running, enough: (allowed: number) => boolean): Promise<number> {
  const call = () => {
    const { headers, body } = callOf({ token, signer: agent.key })
    const lines = Object.fromEntries([...headers].map(([name, values]) => [name, values.join(', ')]))
    const bytes = body.state === 'complete' ? Buffer.from(body.bytes) : Buffer.alloc(0)
    return client.check(checkBytes({ headers: lines, raw_body: bytes, size: bytes.length }))
  }
  let allowed = 0
  const caller = async () => {
    while (!enough(allowed)) {
      const answer = await call().catch(() => undefined)
      if (answer === undefined) return
      expect(answer.ok_response, JSON.stringify(answer)).toBeDefined()
      allowed++
    }
  }
  await Promise.all(Array.from({ length: CALLERS }, caller))
  return allowed
}

/**
 * Killed under load, while its reports of more than one request could not be recorded. @returns how many
 * calls were let through.
 */
async function killUnderLoad(running: Running, since: number): Promise<number> {
  const first = await load(running, allowed => allowed >= 20)
  await until(async () => (await ledger('touched', since)).length === first)
  const unrecorded = await inTransaction(authority.database.db, async tx => {
    await sql`SET LOCAL idle_in_transaction_session_timeout = 0`.execute(tx)
    await sql`LOCK TABLE report_instances IN EXCLUSIVE MODE`.execute(tx)
    return load(running, allowed => {
      if (allowed >= 200) running.child.kill('SIGKILL')
      return false
    })
  })
  running.client.close()
  return first + unrecorded
}

describe('A sidecar killed while calls go on', () => {
  test('with a directory for reports loses none: the next process tells of each once, and says goodbye for it', async () => {
    const since = await lastSeq()
    const settings = { reports: { state_dir: join(directory, 'state') } }
    const allowed = await killUnderLoad(await start(settings), since)
    const next = await start(settings)
    const { db } = authority.database
    const ended = async () => (await sql`SELECT n FROM report_instances WHERE ended`.execute(db)).rows
    await until(async () => (await ended()).length === 1)
    next.client.close()
    const told = await ledger('touched', since)
    expect(told.map(({ n }) => n).toSorted((a, b) => a - b)).toEqual(told.map((_, index) => index + 1))
    // A call that was written down and not answered any more may be told, too: it was about to be let
    // through.
    expect(told.length).toBeGreaterThanOrEqual(allowed)
    expect(told.length).toBeLessThanOrEqual(allowed + CALLERS)
    expect(await ledger('reports_missing', since)).toEqual([])
  }, 240_000)

  test('without one loses what it had not sent, and her ledger says up to where it knows', async () => {
    const since = await lastSeq()
    const allowed = await killUnderLoad(await start(), since)
    const { db } = authority.database
    const told = await ledger('touched', since)
    expect(told.length).toBeLessThan(allowed)
    await sql`UPDATE report_instances SET heard_at = heard_at - interval '11 minutes'`.execute(db)
    await tellSilent(db, asOwner('alice'))
    const { instance } = told[0]!
    const unknown = (await ledger('reports_unknown', since)).filter(one => one.instance === instance)
    const [last] = (await ledger('touched', since)).map(({ n }) => n).toSorted((a, b) => b - a)
    expect(unknown).toEqual([expect.objectContaining({ after: last })])
  }, 240_000)
})
