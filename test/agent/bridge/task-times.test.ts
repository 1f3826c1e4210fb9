/**
 * contract, "Permission ticket" (awaiting-owner), for the time that a task has within one process: a client
 * that does not ask for it that long no longer waits for it, and nothing of it stays in memory.
 */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { Calls } from '../../../src/agent/bridge/calls.ts'
import { familyId, type FamilyRecord } from '../../../src/agent/bridge/negotiation/family.ts'
import type { OpenRequest } from '../../../src/agent/bridge/negotiation/request.ts'
import { bridgeState, type BridgeState } from '../../../src/agent/bridge/negotiation/state.ts'
import { createTasks, TASKS_MAX, type Tasks } from '../../../src/agent/bridge/questions/tasks.ts'
import { createDirectory } from '../../../src/agent/negotiation/metadata.ts'
import { readProfile } from '../../../src/agent/profile.ts'
import { bridgeFolder } from '../../support/bridge.ts'
import { newKey } from '../../support/operators.ts'

const resource = 'https://tools.example.com/mcp/alice'
const call = { tool: 'place_trade', arguments: { qty: 1 } }
const id = familyId(resource, call, true)
const TTL_SECONDS = 3600
const START = 1_800_000_000
let folder: Awaited<ReturnType<typeof bridgeFolder>>
let state: BridgeState
let seconds: number
let calls: Calls
let tasks: Tasks
let request: OpenRequest
let leave: () => void

const now = (): number => seconds
const nobody = (): never => {
  throw new Error('nobody is asked')
}
/** The time goes on, for the clock and for whatever waits for it. */
const pass = async (more: number): Promise<void> => {
  seconds += more
  await vi.advanceTimersByTimeAsync(more * 1000)
}
const ask = (taskId: string) => tasks.get(taskId, () => undefined)
const kept = () => state.family<FamilyRecord>(id)

/** A request that the owner is asked about, whose authority does not answer. */
beforeEach(async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  seconds = START
  folder = await bridgeFolder()
  state = bridgeState(folder.folder, 'client')
  const owner = { as_uri: 'https://as.example', owner: 'alice' }
  const template = { family: 'fam_1', template_id: 'v1' }
  const waiting = { as_uri: owner.as_uri, ticket: 't', kind: 'approval', signed: { template } }
  await state.keepFamily(id, {
    id,
    resource,
    call,
    owner,
    since: START,
    phase: { name: 'waiting', request: waiting },
  })
  open()
  ;({ request, leave } = (await calls.find(id))!)
})
afterEach(async () => {
  await calls.close()
  vi.useRealTimers()
  await folder.remove()
})

/** A process that leads it. */
function open(): void {
  calls = new Calls({
    state,
    directory: createDirectory({ allowLoopback: false, now }),
    beforehand: { has: () => false } as never,
    lingerSeconds: 900,
    now,
    profileOf: () => new Promise(() => undefined),
    bare: readProfile({ key: newKey() }),
    upstreamOf: nobody,
    definitionOf: () => undefined,
    listed: async () => undefined,
    onKnown: nobody,
    onGranted: nobody,
  })
  tasks = createTasks(calls, now)
}

describe('A task that a client waits by', () => {
  it('lives as long as it was told after it was last asked for, and then nobody waits by it', async () => {
    const { taskId, ttlMs } = (await tasks.create(request, request.record.call)) as {
      taskId: string
      ttlMs: number
    }
    leave()
    expect(ttlMs).toBe(TTL_SECONDS * 1000)
    await pass(TTL_SECONDS / 2)
    expect(await ask(taskId)).toMatchObject({ status: 'working', ttlMs: 1.5 * TTL_SECONDS * 1000 })
    await pass(TTL_SECONDS - 1)
    expect(await kept()).toMatchObject({ tasks: [{ id: taskId, until: START + 1.5 * TTL_SECONDS }] })
    await pass(1)
    await expect.poll(async () => (await kept())?.left).toBe(seconds)
    expect((await kept())?.tasks).toBeUndefined()
    expect(await ask(taskId)).toBeUndefined()
  })

  it('lives no longer than seven days, however often it is asked for, and says so', async () => {
    const { taskId } = (await tasks.create(request, request.record.call)) as { taskId: string }
    leave()
    const last = START + 7 * 86_400
    for (let told = 0; told < 7 * 86_400 * 1000;) {
      expect(now()).toBeLessThan(last)
      await pass(TTL_SECONDS - 60)
      const { ttlMs } = (await ask(taskId)) as { ttlMs: number }
      expect(ttlMs).toBeGreaterThan(told)
      told = ttlMs
    }
    expect(await kept()).toMatchObject({ tasks: [{ id: taskId, until: last }] })
    await pass(last - now())
    expect(await ask(taskId)).toBeUndefined()
    await expect.poll(async () => (await kept())?.tasks).toBeUndefined()
  })

  it('has its client there for a decision for ten seconds after it asked', async () => {
    const enter = vi.spyOn(request, 'enter')
    const { taskId } = (await tasks.create(request, request.record.call)) as { taskId: string }
    leave()
    const { isHere } = enter.mock.lastCall![0]!
    await pass(10)
    expect(isHere!()).toBe(true)
    await pass(1)
    expect(isHere!()).toBe(false)
    await ask(taskId)
    expect(isHere!()).toBe(true)
  })

  it('is not known any more to a process that comes after its time', async () => {
    const { taskId } = (await tasks.create(request, request.record.call)) as { taskId: string }
    leave()
    seconds += TTL_SECONDS - 1
    expect(await createTasks(calls, now).get(taskId, () => undefined)).toMatchObject({ status: 'working' })
    seconds += TTL_SECONDS
    expect(await createTasks(calls, now).get(taskId, () => undefined)).toBeUndefined()
  })
})

describe('A task of an earlier process', () => {
  it.each<[string, (taskId: string) => Promise<boolean>]>([
    ['a word for its question', taskId => tasks.update(taskId, {})],
    [
      'a word for its question, twice at once',
      async taskId => {
        const both = await Promise.all([tasks.update(taskId, {}), tasks.update(taskId, {})])
        return both.every(Boolean)
      },
    ],
  ])('ends at its time also where the first thing heard of it is %s', async (_what, hear) => {
    const { taskId } = (await tasks.create(request, request.record.call)) as { taskId: string }
    leave()
    await calls.close()
    open()
    await pass(60)
    expect(await hear(taskId)).toBe(true)
    await pass(TTL_SECONDS - 60)
    await expect.poll(async () => (await kept())?.left).toBe(seconds)
    expect((await kept())?.tasks).toBeUndefined()
    expect(await ask(taskId)).toBeUndefined()
  })
})

describe('The tasks of one client', () => {
  const made = async (): Promise<string> =>
    ((await tasks.create(request, request.record.call)) as { taskId: string }).taskId
  const many = async (): Promise<string[]> => {
    const ids: string[] = []
    while (ids.length < TASKS_MAX) ids.push(await made())
    return ids
  }

  it('are so many at most that one more is refused while all are under way, for the time being', async () => {
    const [first] = await many()
    await expect(made()).rejects.toMatchObject({ code: 'temporarily_unavailable', terminal: false })
    expect((await kept())?.tasks).toHaveLength(TASKS_MAX)
    // One that was cancelled makes room.
    expect(await tasks.cancel(first!)).toBe(true)
    const last = await made()
    expect(await ask(first!)).toBeUndefined()
    expect(await ask(last)).toMatchObject({ status: 'working' })
    leave()
  })

  it('are each kept on the disk where several are made at once', async () => {
    const ids = await Promise.all([made(), made(), made()])
    expect((await kept())?.tasks?.map(task => task.id).toSorted()).toEqual(ids.toSorted())
    leave()
  })

  it('give way when they are over, those first whose answer the client has, and none is made anew', async () => {
    // The request is this process's own before it leaves it to the next.
    await request.waitByTasks(() => [])
    await calls.close()
    const phase = { name: 'answered', result: { content: [] }, family: 'fam_1' }
    await state.keepFamily(id, { ...(await kept()), phase })
    open()
    ;({ request, leave } = (await calls.find(id))!)
    const [first, second, third] = await many()
    await expect.poll(async () => (await ask(third!))?.['status']).toBe('completed')
    let act = (): Promise<void> => Promise.reject(new Error('it was not told'))
    expect(await tasks.get(second!, given => (act = given))).toMatchObject({ status: 'completed' })
    await act()
    const told = async (): Promise<unknown[]> =>
      Promise.all([first, second, third].map(async one => (await ask(one!))?.['status']))
    await made()
    expect(await told()).toEqual(['completed', undefined, 'completed'])
    await made()
    expect(await told()).toEqual([undefined, undefined, 'completed'])
    // The answer itself stays for those that wait for it.
    expect((await kept())?.tasks).toHaveLength(TASKS_MAX)
    leave()
  })
})

describe('A task that was cancelled', () => {
  it('is kept no more, also where that is the first thing that a process after it hears', async () => {
    const { taskId } = (await tasks.create(request, request.record.call)) as { taskId: string }
    leave()
    await calls.close()
    open()
    expect(await tasks.cancel(taskId)).toBe(true)
    await expect.poll(async () => (await kept())?.left).toBe(seconds)
    expect((await kept())?.tasks).toBeUndefined()
  })

  it('is told as cancelled for its time, is kept on no disk, and then leaves the memory', async () => {
    const { taskId } = (await tasks.create(request, request.record.call)) as { taskId: string }
    leave()
    await pass(10)
    expect(await tasks.cancel(taskId)).toBe(true)
    await expect.poll(async () => (await kept())?.left).toBe(seconds)
    expect((await kept())?.tasks).toBeUndefined()
    await pass(TTL_SECONDS - 60)
    expect(await ask(taskId)).toMatchObject({ status: 'cancelled' })
    // That asking gave it its time once more.
    await pass(TTL_SECONDS - 60)
    expect(await tasks.cancel(taskId)).toBe(true)
    await pass(60)
    expect(await ask(taskId)).toBeUndefined()
    expect(await tasks.cancel(taskId)).toBe(false)
  })
})
