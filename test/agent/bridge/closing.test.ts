/**
 * contract, "Single-use grant", for a bridge that is closed in the middle of a negotiation: what may have
 * happened is written down before it can, so what cannot be written down any more is not sent.
 */
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { AgentError } from '../../../src/agent/agent-error.ts'
import { familyId, type FamilyRecord } from '../../../src/agent/bridge/negotiation/family.ts'
import { OpenRequest } from '../../../src/agent/bridge/negotiation/request.ts'
import { bridgeState, type BridgeState } from '../../../src/agent/bridge/negotiation/state.ts'
import { createDirectory } from '../../../src/agent/negotiation/metadata.ts'
import { readProfile } from '../../../src/agent/profile.ts'
import { bridgeFolder } from '../../support/bridge.ts'
import { newKey } from '../../support/operators.ts'

const resource = 'https://tools.example.com/mcp/alice'
const call = { tool: 'place_trade', arguments: { qty: 1 } }
const id = familyId(resource, call, true)
/** How far the clock of the bridge is ahead. */
let ahead = 0
const now = (): number => Math.floor(Date.now() / 1000) + ahead
let folder: Awaited<ReturnType<typeof bridgeFolder>>
let state: BridgeState

beforeEach(async () => {
  ahead = 0
  folder = await bridgeFolder()
  state = bridgeState(folder.folder, 'client')
  const grant = {
    access_token: 'an RPT',
    jti: 'j',
    resource,
    as_uri: 'https://as.example',
    family: 'fam_1',
    permissions: [],
    exp: now() + 600,
    contract: 'c',
    single_use: true,
  }
  const owner = { as_uri: 'https://as.example', owner: 'alice' }
  await state.keepFamily(id, { id, resource, call, owner, since: now(), phase: { name: 'granted', grant } })
})
afterEach(() => folder.remove())

/** A request whose grant is on disk; `onSend` is the sending, `onProfile` the step before it. */
function pending(
  onProfile: () => Promise<unknown>,
  onSend: () => Promise<string>,
  onEnded: () => void = () => undefined,
): OpenRequest {
  return new OpenRequest(
    { id, resource, call, since: now(), phase: { name: 'new' } },
    {
      state,
      directory: createDirectory({ allowLoopback: false, now }),
      lingerSeconds: 900,
      sweepEnd: async () => undefined,
      now,
      profileOf: async () => {
        await onProfile()
        return readProfile({ key: newKey() })
      },
      challenge: async () => ({ kind: 'result', result: 'made without asking' }),
      offer: () => Promise.reject(new Error('nothing is offered')),
      onAgreed: async () => undefined,
      sendOnce: onSend,
      onOperation: async () => id,
      onLeft: () => undefined,
      onGrant: () => undefined,
      onEnded,
      onRefused: async () => undefined,
    },
  )
}

it('A bridge that is closed before a call was written down sends nothing, and the grant waits for whoever asks again', async () => {
  let sent = 0
  const request: OpenRequest = pending(
    () => request.close(),
    async () => `${++sent}`,
  )
  request.enter()
  await request.run(undefined)
  expect(sent).toBe(0)
  expect(await state.family<FamilyRecord>(id)).toMatchObject({ phase: { name: 'granted' } })
})

it('A failure is told once the request has ended: who asks again at once asks anew, and not what has failed', async () => {
  const told: string[] = []
  const outage = { detail: 'It is down.', terminal: false, local: true, unspent: true }
  const request = pending(
    async () => undefined,
    () => Promise.reject(new AgentError('unreachable', outage)),
    () => told.push('ended'),
  )
  request.enter()
  const { signal } = new AbortController()
  const failed = request.until(({ name }) => name === 'failed', 20_000, signal)
  await Promise.all([request.run(undefined), failed.then(() => told.push(request.stage.name))])
  expect(told).toEqual(['ended', 'failed'])
  const again = await state.hold(id, 'abandoned')
  expect(again).toBeDefined()
  await again!.release()
})

it('A call that needs no permission any more is made once: its answer is kept until it was delivered', async () => {
  // Nothing is left of an approval.
  await state.dropFamily(id)
  const ended: string[] = []
  const request = pending(
    async () => undefined,
    () => Promise.reject(new Error('nothing is sent under a grant')),
    () => void ended.push(id),
  )
  const leave = request.enter()
  await request.run(undefined)
  expect(request.stage).toMatchObject({ settled: { kind: 'answer', result: 'made without asking' } })
  const phase = { name: 'answered', result: 'made without asking' }
  expect(await state.family<FamilyRecord>(id)).toMatchObject({ phase })
  await request.delivered()
  leave()
  expect(await state.family<FamilyRecord>(id)).toBeUndefined()
  expect(ended).toEqual([id])
})

it('A grant that was collected when nobody waits any more is kept, and spent only when somebody asks again', async () => {
  let sent = 0
  const request = pending(
    async () => undefined,
    async () => `sent ${++sent}`,
  )
  request.enter()()
  const running = request.run(undefined)
  // It waits for somebody, here or at another window.
  const held = async (): Promise<string[]> => readdir(join(state.folder, 'held')).catch(() => [])
  await expect.poll(held).toContainEqual(expect.stringMatching(/\.offered$/))
  expect(sent).toBe(0)
  expect(await state.family<FamilyRecord>(id)).toMatchObject({ phase: { name: 'granted' } })
  const leave = request.enter()
  await running
  expect(request.stage).toMatchObject({ settled: { kind: 'answer', result: 'sent 1' } })
  leave()
})

it('A grant that ended while nobody waited is not used: the call begins anew with the next who asks', async () => {
  let sent = 0
  const request = pending(
    async () => undefined,
    async () => `${++sent}`,
  )
  const running = request.run(undefined)
  const { signal } = new AbortController()
  await request.until(({ name }) => name === 'approved', 20_000, signal)
  ahead = 600
  const leave = request.enter()
  await running
  expect(request.stage).toMatchObject({ settled: { kind: 'answer', result: 'made without asking' } })
  expect(sent).toBe(0)
  leave()
})
