/**
 * contract, "Permission ticket" and "Single-use grant", for bridges that share a folder and do not see each
 * other's processes, as containers on one volume: one leads a request at a time, and what it wrote is there.
 */
import fs from 'node:fs'
import promises, { readdir, readFile, rm, stat, symlink, utimes, writeFile } from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'
import { basename, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { SILENT_MILLISECONDS_MAX } from '../../../src/agent/bridge/negotiation/holds.ts'
import { StoredFamily } from '../../../src/agent/bridge/negotiation/stored-family.ts'
import { bridgeState, type BridgeState } from '../../../src/agent/bridge/negotiation/state.ts'
import { createSweeper } from '../../../src/agent/bridge/negotiation/sweep.ts'
import { createDirectory } from '../../../src/agent/negotiation/metadata.ts'
import { bridgeFolder } from '../../support/bridge.ts'

const ID = 'A'.repeat(43)
let folder: Awaited<ReturnType<typeof bridgeFolder>>
let state: BridgeState
let held: string

beforeEach(async () => {
  folder = await bridgeFolder()
  state = bridgeState(folder.folder, 'client')
  held = join(state.folder, 'held')
})
afterEach(() => folder.remove())

/** What another process holds the request by: as this one says it, but for what is given. */
async function heldElsewhere(holder: object): Promise<string> {
  const hold = (await state.hold(ID, 'offered'))!
  const [name] = await readdir(held)
  const own = JSON.parse(await readFile(join(held, name!), 'utf8')) as object
  await hold.release()
  const path = join(held, `${ID}.${crypto.randomUUID()}`)
  await writeFile(path, JSON.stringify({ ...own, instance: crypto.randomUUID(), ...holder }))
  return path
}
const silentFor = async (path: string, milliseconds: number): Promise<void> => {
  const at = (Date.now() - milliseconds) / 1000
  await utimes(path, at, at)
}
const ANOTHER_PLACE = { place: 'another namespace', pid: process.pid }
const NO_PROCESS = 2 ** 22 + 1

describe('A request that another process holds', () => {
  it.each([
    ['of another namespace, whose number is our own', ANOTHER_PLACE],
    ['of another namespace, whose number nobody has here', { ...ANOTHER_PLACE, pid: NO_PROCESS }],
    ['of this namespace, while it runs', {}],
  ])('stays its own: %s', async (_what, holder) => {
    const path = await heldElsewhere(holder)
    expect(await state.hold(ID, 'offered')).toBeUndefined()
    expect((await stat(path)).isFile()).toBe(true)
  })

  it.each([
    ['of another namespace, once it was silent too long', ANOTHER_PLACE, SILENT_MILLISECONDS_MAX + 1000],
    ['of this namespace, once that process is dead', { pid: NO_PROCESS }, 0],
    ['of this namespace, once another one has its number', { started: '1' }, 0],
  ])('is taken over: %s', async (_what, holder, milliseconds) => {
    const path = await heldElsewhere(holder)
    await silentFor(path, milliseconds)
    const hold = (await state.hold(ID, 'abandoned'))!
    expect(await hold.isOurs()).toBe(true)
    expect(await readdir(held)).not.toContain(path.split('/').at(-1))
    await hold.release()
    expect(await readdir(held)).toEqual([])
  })

  it('is held by nobody if its process was killed while it wrote its hold', async () => {
    const { rename } = promises
    onTestFinished(() => {
      promises.rename = rename
      syncBuiltinESMExports()
    })
    const begun = Promise.withResolvers<void>()
    promises.rename = () => {
      begun.resolve()
      return new Promise(() => undefined)
    }
    syncBuiltinESMExports()
    void state.hold(ID, 'offered')
    await begun.promise
    promises.rename = rename
    syncBuiltinESMExports()
    const hold = (await state.hold(ID, 'offered'))!
    expect(await hold.isOurs()).toBe(true)
    await hold.release()
  })

  it('shows that it lives by the clock of the folder', { timeout: 30_000 }, async () => {
    const hold = (await state.hold(ID, 'abandoned'))!
    const [name] = await readdir(held)
    const path = join(held, name!)
    await silentFor(path, SILENT_MILLISECONDS_MAX)
    const before = Date.now() - SILENT_MILLISECONDS_MAX / 2
    await expect.poll(async () => (await stat(path)).mtimeMs).toBeGreaterThan(before)
    await hold.release()
  })
})

describe('A request whose holder cannot be looked at', () => {
  it('is not taken over: another fault than that there is no such file says nothing about the holder', async () => {
    const path = await heldElsewhere({})
    await rm(path)
    // A link to itself: no reader gets to a file, and the name is there.
    await symlink(path, path)
    await expect(state.hold(ID, 'offered')).rejects.toMatchObject({ code: 'ELOOP' })
    expect(await readdir(held)).toEqual([basename(path)])
  })

  it('is not taken over by the same process that knows the folder by another name', async () => {
    const hold = (await state.hold(ID, 'offered'))!
    const alias = `${folder.folder}-alias`
    await symlink(folder.folder, alias)
    expect(await bridgeState(alias, 'client').hold(ID, 'offered')).toBeUndefined()
    expect(await hold.isOurs()).toBe(true)
    await hold.release()
    await rm(alias)
  })

  it.each([
    ['while it gives signs of life', 0, false],
    ['but is once it was silent too long', SILENT_MILLISECONDS_MAX + 1000, true],
  ])('is not taken over where the system does not tell when it began, %s', async (_what, silent, taken) => {
    const path = await heldElsewhere({ pid: process.ppid, started: '1' })
    await silentFor(path, silent)
    const read = vi.spyOn(fs, 'readFileSync').mockImplementation(of => {
      throw Object.assign(new Error('too many open files'), { code: 'EMFILE', path: of })
    })
    syncBuiltinESMExports()
    const hold = await state.hold(ID, 'abandoned').finally(() => {
      read.mockRestore()
      syncBuiltinESMExports()
    })
    expect(hold !== undefined).toBe(taken)
    await hold?.release()
  })
})

describe('A request that its holder offers', () => {
  it('goes to one of those that want it, or back to the holder, however many come at once', async () => {
    for (let round = 0; round < 20; round++) {
      const first = (await state.hold(ID, 'offered'))!
      await first.offer()
      const [isBack, ...others] = await Promise.all([
        round % 2 === 0 ? first.retake() : false,
        ...[1, 2, 3].map(() => state.hold(ID, 'offered')),
      ])
      const winners = others.filter(hold => hold !== undefined)
      const isFirsts = isBack || (await first.retake())
      expect([isFirsts, winners.length]).toEqual(isFirsts ? [true, 0] : [false, 1])
      expect(await first.isOurs()).toBe(isFirsts)
      for (const hold of [first, ...winners]) await hold.release()
      expect(await readdir(held)).toEqual([])
    }
  })

  it('stays with it where somebody comes for what was abandoned only', async () => {
    const first = (await state.hold(ID, 'offered'))!
    await first.offer()
    expect(await state.hold(ID, 'abandoned')).toBeUndefined()
    expect(await first.retake()).toBe(true)
    await first.release()
  })
})

describe('A bridge that stood still and was taken for dead', () => {
  it('writes nothing any more, so that nothing is sent that another one does not know of', async () => {
    const record = { id: ID, resource: 'https://r.example/mcp', call: { tool: 't' }, since: 1 }
    const kept = new StoredFamily({ ...record, phase: { name: 'sending', family: 'f' } }, state)
    expect(await kept.hold('offered')).toBe(true)
    const [name] = await readdir(held)
    await silentFor(join(held, name!), SILENT_MILLISECONDS_MAX + 1000)
    const own = JSON.parse(await readFile(join(held, name!), 'utf8')) as object
    await writeFile(join(held, name!), JSON.stringify({ ...own, ...ANOTHER_PLACE }))
    await silentFor(join(held, name!), SILENT_MILLISECONDS_MAX + 1000)
    const other = (await state.hold(ID, 'abandoned'))!
    await state.keepFamily(ID, { ...record, phase: { name: 'refused', error: {}, family: 'f' } })
    await expect(kept.keep()).rejects.toMatchObject({ code: 'in_progress', terminal: false })
    await expect(kept.keep()).rejects.toMatchObject({ code: 'in_progress' })
    await kept.drop()
    expect(kept.hasHold).toBe(false)
    expect(await state.family(ID)).toMatchObject({ phase: { name: 'refused' } })
    await other.release()
  })
})

describe('A request that is left while it is being taken', () => {
  it('is held by nobody, so that another process may continue it', async () => {
    const record = { id: ID, resource: 'https://r.example/mcp', call: { tool: 't' }, since: 1 }
    const kept = new StoredFamily({ ...record, phase: { name: 'new' } }, state)
    const taken = kept.hold('abandoned')
    await kept.leave()
    expect([await taken, kept.hasHold]).toEqual([false, false])
    expect(await readdir(held)).toEqual([])
  })
})

describe('A request whose owner is waited for', () => {
  it('is offered to other processes only while nobody waits for it here', async () => {
    const record = { id: ID, resource: 'https://r.example/mcp', call: { tool: 't' }, since: 1 }
    const kept = new StoredFamily({ ...record, phase: { name: 'new' } }, state)
    await kept.hold('abandoned')
    const decision = Promise.withResolvers<void>()
    const waiting = kept.idle(decision.promise)
    expect(await kept.want()).toBe(true)
    expect(await state.hold(ID, 'offered')).toBeUndefined()
    kept.desert()
    await expect.poll(() => readdir(held)).toHaveLength(2)
    const other = (await state.hold(ID, 'offered'))!
    expect(await other.isOurs()).toBe(true)
    decision.resolve()
    await expect(waiting).rejects.toMatchObject({ code: 'in_progress' })
    await other.release()
  })
})

describe('What nobody came back for', () => {
  const now = (): number => Math.floor(Date.now() / 1000)
  const record = { id: ID, resource: 'https://r.example/mcp', call: { tool: 't' }, since: 1, left: 1 }
  const answered = { ...record, phase: { name: 'answered', result: {}, family: 'f' } }
  const sweep = async (): Promise<void> => {
    const parts = {
      state,
      directory: createDirectory({ allowLoopback: false, now }),
      lingerSeconds: 0,
      now,
      profileOf: () => Promise.reject(new Error('nobody is asked')),
    }
    const sweeper = createSweeper(parts, () => false)
    await sweeper.begin()
    sweeper.close()
  }

  it('is left alone while another namespace holds it, and dropped once nobody does', async () => {
    await state.keepFamily(ID, answered)
    const path = await heldElsewhere(ANOTHER_PLACE)
    await sweep()
    expect(await state.family(ID)).toEqual(answered)
    await silentFor(path, SILENT_MILLISECONDS_MAX + 1000)
    await sweep()
    expect(await state.family(ID)).toBeUndefined()
  })

  it('is kept as long as a client may ask for its task, and where a call may have run', async () => {
    const task = { id: `${ID}.x`, created: now(), until: now() + 60 }
    const waits = { ...answered, tasks: [task] }
    await state.keepFamily(ID, waits)
    await sweep()
    expect(await state.family(ID)).toEqual(waits)
    const over = { ...waits, tasks: [{ ...task, until: now() - 1 }] }
    await state.keepFamily(ID, { ...over, phase: { name: 'sending', family: 'f' } })
    await sweep()
    expect(await state.family(ID)).toMatchObject({ phase: { name: 'sending' } })
    await state.keepFamily(ID, over)
    await sweep()
    expect(await state.family(ID)).toBeUndefined()
  })
})
