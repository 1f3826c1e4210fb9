/**
 * A sidecar with `liveness: leased`: what it writes down of a call that was judged by a kept answer, and that
 * such a call is judged in all else as every other. Contract, "Grant (RPT) liveness"; docs/operating.md.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { readSidecarConfig } from '../../../src/config.ts'
import { startSidecar, type Sidecar } from '../../../src/enforcement/main.ts'
import { createLogger } from '../../../src/http/telemetry/log.ts'
import { checkBytes, connect, type CheckClient } from '../../support/check-client.ts'
import { startLeasingAuthority, type LeasingAuthority } from '../../support/leasing-authority.ts'
import { sidecarSettings, writeSidecarFiles } from '../../support/sidecar.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { until } from '../../support/until.ts'
import { callOf, newKey, type CallParts } from '../calls.ts'

const agent = newKey()
const folder = temporaryFolder('leased')
const lines: Record<string, unknown>[] = []
let authority: LeasingAuthority
let sidecar: Sidecar
let envoy: CheckClient

beforeAll(async () => {
  authority = await startLeasingAuthority(agent)
  const file = await writeSidecarFiles(folder, {
    ...sidecarSettings({ directory: folder, authority }),
    liveness: 'leased',
  })
  const write = (line: string) => lines.push(JSON.parse(line) as Record<string, unknown>)
  sidecar = await startSidecar(readSidecarConfig(file, { UMA_DEV_LOOPBACK: 'true' }), {
    logger: createLogger({ name: 'test', level: 'info', write }),
  })
  envoy = connect(sidecar.checkAddress)
})
afterAll(async () => {
  envoy.close()
  await sidecar.close()
  await authority.close()
})

/** The line that is written of a call. */
async function lineOf(parts: CallParts): Promise<Record<string, unknown>> {
  const call = callOf(parts)
  const { length } = lines
  await envoy.check(
    checkBytes({
      path: call.path,
      headers: Object.fromEntries([...call.headers].map(([name, values]) => [name, values[0]!])),
      raw_body: call.body.state === 'complete' ? call.body.bytes : Buffer.alloc(0),
    }),
  )
  const written = lines.slice(length).filter(({ msg }) => msg === 'decided')
  expect(written).toHaveLength(1)
  return written[0]!
}

test('it takes a lease with the first answer that comes once it has read that the authority offers leases', async () => {
  const { promise: isRead, resolve: read } = Promise.withResolvers<void>()
  authority.does.beforeMetadata = () => isRead
  const call = () => lineOf({ token: authority.issue(), signer: agent })
  for (const _ of [1, 2]) expect(await call()).toMatchObject({ decision: 'allow' })
  expect(authority.server.to('/leases')).toHaveLength(0)
  read()
  await until(async () => (await call()) && authority.holders.length === 1)
})

test('the line of a call says if it was judged by a kept answer; all else is judged for each call', async () => {
  const token = authority.issue()
  const call = { token, signer: agent }
  const first = await lineOf(call)
  expect(first).toMatchObject({ decision: 'allow', reason: 'granted' })
  expect(first).not.toHaveProperty('leased')
  await until(async () => (await lineOf(call))['leased'] === true)
  const asked = authority.asked.length
  expect(await lineOf(call)).toMatchObject({ decision: 'allow', leased: true })
  const refused: [Parameters<typeof callOf>[0], string][] = [
    [{ ...call, tool: 'place_trade' }, 'insufficient_authorization'],
    [{ ...call, signer: newKey() }, 'invalid_token'],
    [{ token }, 'invalid_token'],
    [{ ...call, created: Math.floor(Date.now() / 1_000) - 120 }, 'invalid_token'],
    [{ ...call, tool: 'unknown' }, 'unknown_tool'],
  ]
  for (const [parts, reason] of refused)
    expect(await lineOf(parts!)).toMatchObject({ decision: 'deny', reason })
  expect(lines.filter(({ reason, leased }) => reason === 'invalid_token' && leased === true)).toHaveLength(3)
  expect(authority.asked.length).toBe(asked)
})

test('the line of a call that was judged by a kept answer has what the authority knew when it gave that answer', async () => {
  const judged = { ends: 3, at: Date.now() }
  const call = { token: authority.issue({ judged }), signer: agent }
  await until(async () => (await lineOf(call))['leased'] === true)
  const line = lines.findLast(({ leased }) => leased === true)
  expect(line).toMatchObject({ decision: 'allow', judged, iat: expect.any(Number) })
})

test('its lease outlives the heartbeats of half a day, during which the authority asks for nothing', async () => {
  const { stream } = authority.holders.at(-1)!
  const { length } = authority.holders
  // One a second.
  stream.write(':\n\n'.repeat(12 * 3_600))
  authority.invalidate(1)
  await until(() => authority.holders.some(({ acknowledged }) => acknowledged === 1))
  const call = { token: authority.issue(), signer: agent }
  await until(async () => (await lineOf(call))['leased'] === true)
  expect(authority.holders).toHaveLength(length)
})

test('its numbers tell of leases', async () => {
  const text = await (await fetch(`http://${sidecar.httpAddress}/metrics`)).text()
  expect(text).toMatch(/^usher_leases_held 1$/m)
  expect(text).toMatch(/^usher_grant_answers_total\{by="kept"\} [1-9]\d*$/m)
  expect(text).toMatch(/^usher_authority_seconds_count\{call="lease",outcome="answered"\} [1-9]\d*$/m)
})

test('when it ends, the authority is told that nothing is used any more', async () => {
  envoy.close()
  await sidecar.close()
  expect(authority.holders.at(-1)!.ended).toBe(true)
})
