/**
 * contract, "Permission ticket" (awaiting-owner), for a bridge whose caller waits: the authority holds its
 * poll until the owner decides, and the ticket that a poll brings outlives the bridge.
 */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { familyId, type FamilyRecord, type StoredTask } from '../../../src/agent/bridge/negotiation/family.ts'
import { EARLY_POLL_SECONDS_MAX } from '../../../src/agent/bridge/negotiation/early-poll.ts'
import { OpenRequest, type Waiter } from '../../../src/agent/bridge/negotiation/request.ts'
import { bridgeState, type BridgeState } from '../../../src/agent/bridge/negotiation/state.ts'
import { createDirectory } from '../../../src/agent/negotiation/metadata.ts'
import { readProfile } from '../../../src/agent/profile.ts'
import { newTicket } from '../../../src/wire/negotiation/ticket.ts'
import { bridgeFolder } from '../../support/bridge.ts'
import { newKey } from '../../support/operators.ts'
import type { Reply } from '../../support/scripted-http.ts'
import { challengeOf, startScriptedPeers } from '../../support/scripted-resource.ts'
import { startedForEach } from '../../support/started.ts'

const peers = startedForEach(startScriptedPeers)
const call = { tool: 'trade', arguments: { qty: 1 } }
const now = (): number => Math.floor(Date.now() / 1000)
const id = () => familyId(peers.resource, call, true)
const INTERVAL = 5
/** The terms, the agreement, and then the first poll. */
const FIRST_POLL = 3

let folder: Awaited<ReturnType<typeof bridgeFolder>>
let state: BridgeState
let request: OpenRequest
let running: Promise<void>
let sent: number

beforeEach(async () => {
  folder = await bridgeFolder()
  state = bridgeState(folder.folder, 'client')
  sent = 0
  peers.twists.perOperation = true
  peers.twists.owner = { polls: 1, kind: 'operation', interval: INTERVAL }
})
afterEach(async () => {
  vi.restoreAllMocks()
  vi.useRealTimers()
  await request.close()
  await running
  await folder.remove()
})

/** Begins the negotiation about the call; no pause between polls ends by itself. */
function begin(waiter: Waiter | undefined, tasks?: StoredTask[]): void {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  vi.spyOn(globalThis, 'setTimeout')
  const profile = readProfile({ key: newKey(), allowLoopback: true })
  request = new OpenRequest(
    { id: id(), resource: peers.resource, call, since: now(), phase: { name: 'new' }, tasks },
    {
      state,
      directory: createDirectory({ allowLoopback: true, now }),
      lingerSeconds: 900,
      sweepEnd: async () => undefined,
      now,
      profileOf: async () => profile,
      challenge: () => Promise.reject(new Error('it was challenged already')),
      offer: async () => undefined,
      onAgreed: async () => undefined,
      sendOnce: async () => `sent ${++sent}`,
      onOperation: async () => id(),
      onLeft: () => undefined,
      onGrant: () => undefined,
      onEnded: () => undefined,
      onRefused: async () => undefined,
    },
  )
  if (waiter !== undefined) request.enter(waiter)
  running = request.run(challengeOf(peers, call.tool))
}

const polls = (): number => Math.max(0, peers.tokenForms().length - FIRST_POLL + 1)
/** How often it paused between two polls. */
const pauses = (): number => {
  const milliseconds = peers.twists.owner!.interval * 1000
  return vi.mocked(setTimeout).mock.calls.filter(([, after]) => after === milliseconds).length
}

/** The authority holds the first poll until `decide` is called. */
function hold(reply: () => Reply | undefined): { opened: Promise<void>; decide: () => void } {
  const opened = Promise.withResolvers<void>()
  const decided = Promise.withResolvers<void>()
  peers.authority.script('/token', async (_received, nth) => {
    if (nth !== FIRST_POLL) return undefined
    opened.resolve()
    await decided.promise
    return reply()
  })
  return { opened: opened.promise, decide: decided.resolve }
}

describe('A poll of a bridge whose caller waits', () => {
  it('is open when the owner decides, and the call is made by its answer, without a second poll', async () => {
    const { decide } = hold(() => undefined)
    begin({})
    await expect.poll(() => peers.tokenForms().length).toBe(FIRST_POLL)
    expect(pauses()).toBe(0)
    expect(request.stage.name).toBe('waiting')
    expect(sent).toBe(0)
    decide()
    await running
    expect(request.stage).toMatchObject({ settled: { kind: 'answer', result: 'sent 1' } })
    expect(polls()).toBe(1)
  })

  it('is sent before the interval is over only once to an authority that holds none', async () => {
    peers.twists.owner!.polls = 3
    begin({})
    for (const count of [1, 2]) {
      await expect.poll(pauses).toBe(count)
      expect(polls()).toBe(count)
      await vi.advanceTimersByTimeAsync(INTERVAL * 1000 - 1)
      expect(polls()).toBe(count)
      await vi.advanceTimersByTimeAsync(1)
    }
    await running
    expect(polls()).toBe(3)
    expect(sent).toBe(1)
  })

  it('is not held where the authority asks for a longer interval than a bridge has for ending', async () => {
    peers.twists.owner!.interval = EARLY_POLL_SECONDS_MAX + 1
    begin({})
    await expect.poll(pauses).toBe(1)
    expect(polls()).toBe(0)
  })
})

describe('A poll of a bridge for which nobody waits', () => {
  it('is not held: the ticket stays on the disk, and whoever asks again has it polled at once', async () => {
    begin(undefined)
    await expect.poll(pauses).toBe(1)
    expect(polls()).toBe(0)
    expect(await state.family<FamilyRecord>(id())).toMatchObject({ phase: { name: 'waiting' } })
    request.enter()
    await running
    expect(polls()).toBe(1)
    expect(sent).toBe(1)
  })
})

describe('A poll for a task', () => {
  const tasks = (): StoredTask[] => [{ id: `${id()}.1`, created: now(), until: now() + 3600 }]

  it('is open when the owner decides, as long as the client asks for the task', async () => {
    const { decide } = hold(() => undefined)
    begin({ isHere: () => true }, tasks())
    await expect.poll(() => peers.tokenForms().length).toBe(FIRST_POLL)
    expect(pauses()).toBe(0)
    decide()
    await running
    expect(request.stage).toMatchObject({ settled: { kind: 'answer', result: 'sent 1' } })
    expect(polls()).toBe(1)
  })

  it('is not held where the client asks no more: the ticket stays on the disk between polls', async () => {
    begin({ isHere: () => false }, tasks())
    await expect.poll(pauses).toBe(1)
    expect(polls()).toBe(0)
    expect(await state.family<FamilyRecord>(id())).toMatchObject({ phase: { name: 'waiting' } })
  })
})

describe('A bridge that ends while a poll is held', () => {
  it('writes down the ticket that the poll brings, for the bridge that comes after it', async () => {
    const { ticket } = newTicket('tag')
    const body = { error: 'request_submitted', kind: 'operation', ticket, interval: INTERVAL }
    const { opened, decide } = hold(() => ({ status: 403, body }))
    begin({})
    await opened
    const closed = request.close()
    decide()
    await closed
    await running
    const kept = await state.family<FamilyRecord>(id())
    expect(kept).toMatchObject({ phase: { name: 'waiting', request: { ticket } } })
    expect(polls()).toBe(1)
  })

  it('keeps an approval that the poll brings, and sends nothing', async () => {
    const { opened, decide } = hold(() => undefined)
    begin({})
    await opened
    const closed = request.close()
    decide()
    await closed
    await running
    expect(await state.family<FamilyRecord>(id())).toMatchObject({ phase: { name: 'granted' } })
    expect(sent).toBe(0)
  })

  it('does not wait for an authority that answers after the longest time', async () => {
    const { opened, decide } = hold(() => undefined)
    begin({})
    await opened
    const closed = request.close()
    await vi.advanceTimersByTimeAsync(EARLY_POLL_SECONDS_MAX * 1000)
    await closed
    await running
    decide()
    expect(request.stage).toMatchObject({ name: 'failed', error: { code: 'aborted' } })
    expect(sent).toBe(0)
  })
})
