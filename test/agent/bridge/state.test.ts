/**
 * contract, "Permission ticket" and "Single-use grant", for a bridge whose files fail: a full disk, a spoilt
 * record, a key store that two bridges use at once. Nothing is sent that was not written to disk before, and
 * nobody is asked twice.
 */
import { chmod, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { stateRoot } from '../../../src/agent/bridge/command.ts'
import { bridgeState } from '../../../src/agent/bridge/negotiation/state.ts'
import type { ClientConfig } from '../../../src/config.ts'
import { bridgeFolder, filesIn, pendingOf, type ToolAnswer } from '../../support/bridge.ts'
import { useBridges } from '../../support/bridge-stand.ts'
import { rowsOfLayer } from '../../support/layer.ts'
import { readSent, sendingInto } from '../../support/sent-requests.ts'
import { until } from '../../support/until.ts'

const stand = useBridges({
  stack: { authorityEnvironment: { UMA_AS_POLL_SECONDS: '1' } },
  args: ['--hold', '20'],
})
const { bridge, executions, unique, waiting } = stand
const FORM = { elicitation: {} }
/** A machine that has much else to do takes long to start a bridge. */
const BUSY = { timeout: 60_000 }
const PRELOAD = `--import=${join(import.meta.dirname, '..', '..', 'support', 'kill-at.ts')}`

/**
 * The path of the one record of a client, once it is written. The authority tells her what waits before the
 * bridge has the answer, so a bridge that is killed as soon as she sees it may have kept nothing.
 */
async function recordOf(name: string): Promise<string> {
  const written = async (): Promise<string[]> =>
    (await filesIn(stand.folder))
      .map(({ path }) => path)
      .filter(path => path.includes(`/${name}-`) && path.includes('/families/'))
  await expect.poll(written, BUSY).toHaveLength(1)
  return (await written())[0]!
}

describe('A disk that is full for one file', () => {
  it.each(
    rowsOfLayer(
      [
        'tools kept#1',
        'agreed kept#1',
        'families kept#1',
        'receipts kept#1',
        'needs kept#1',
        'resources kept#1',
        'families kept#2',
        'families kept#3',
        'families kept#4',
      ],
      step => step === 'families kept#3',
    ),
  )('%s: the bridge goes on, she is asked once, the call runs once', async step => {
    const name = `full-${step.replaceAll(/\W+/g, '-')}`
    const { call } = await bridge({
      name,
      capabilities: FORM,
      environment: { NODE_OPTIONS: PRELOAD, FULL_AT: step },
    })
    const trade = { symbol: 'VTI', qty: unique() }
    const asked = new Set<string>()
    const approve = async (): Promise<void> => {
      for (const { family } of await pendingOf(stand.owner)) {
        asked.add(family)
        await stand.owner.decide(family, 'approved')
      }
    }
    const answers: ToolAnswer[] = []
    while (answers.length < 3 && answers.at(-1)?.isError !== false) {
      let ended = false
      const answer = call('place_trade', trade).finally(() => (ended = true))
      answer.catch(() => undefined)
      await expect.poll(async () => (await approve(), ended), { interval: 100 }).toBe(true)
      answers.push(await answer)
    }
    expect(answers.at(-1)!.text).toBe(`Bought ${trade.qty} VTI`)
    for (const { isError, reason, text } of answers.slice(0, -1)) {
      expect([isError, reason]).toEqual([true, 'state_unusable'])
      expect(text).toContain('This time the call was not made')
    }
    expect(asked.size).toBe(1)
    expect(executions('place_trade', trade)).toBe(1)
    // The record goes once the answer has left.
    const left = async () =>
      (await filesIn(stand.folder)).filter(
        ({ path }) => path.includes(`/${name}-`) && path.includes('/families/'),
      )
    await expect.poll(left).toEqual([])
  })
})

describe('A record that cannot be removed once the answer has left', () => {
  it('is removed when the call is made again, which is a new request', async () => {
    const { call } = await bridge({
      name: 'unremoved',
      capabilities: FORM,
      environment: { NODE_OPTIONS: PRELOAD, FULL_AT: 'families removed#1' },
    })
    const trade = { symbol: 'VTI', qty: unique() }
    for (const times of [1, 2]) {
      let answer!: ReturnType<typeof call>
      // A repeat that comes before the answer has left, and the record was to be removed, has that answer.
      await until(async () => {
        let isAnswered = false
        answer = call('place_trade', trade).finally(() => (isAnswered = true))
        answer.catch(() => undefined)
        await until(async () => isAnswered || (await pendingOf(stand.owner)).length > 0)
        return !isAnswered
      })
      await stand.owner.decide((await waiting()).family, 'approved')
      expect((await answer).text).toBe(`Bought ${trade.qty} VTI`)
      expect(executions('place_trade', trade)).toBe(times)
    }
  })
})

describe('A record of a request that cannot be read', () => {
  it.each([
    ['spoilt', async (path: string) => writeFile(path, '{')],
    ['no file', async (path: string) => rm(path).then(() => mkdir(path))],
  ])('is none that may be passed over: %s', async (what, spoil) => {
    const name = `unread-${what.replaceAll(/\W+/g, '-')}`
    const trade = { symbol: 'VTI', qty: unique() }
    const first = await bridge({ name, capabilities: FORM })
    const left = new AbortController()
    first.call('place_trade', trade, { signal: left.signal }).catch(() => undefined)
    const { family } = await waiting()
    const path = await recordOf(name)
    await first.kill()
    await stand.owner.decide(family, 'approved')
    await spoil(path)
    const { call } = await bridge({ name, capabilities: FORM })
    const refused = await call('place_trade', trade)
    expect(refused).toMatchObject({ isError: true, reason: 'state_unusable' })
    expect(refused.text).toContain('This time the call was not made.')
    expect(refused.text.includes('It may say that a call was made')).toBe(what === 'spoilt')
    expect(refused.text.includes('then call again')).toBe(what !== 'spoilt')
    expect(await pendingOf(stand.owner)).toEqual([])
    expect(executions('place_trade', trade)).toBe(0)
    // Another call is another matter.
    const other = { symbol: 'BND', qty: unique() }
    const answer = call('place_trade', other)
    answer.catch(() => undefined)
    await stand.owner.decide((await waiting()).family, 'approved')
    expect((await answer).text).toBe(`Bought ${other.qty} BND`)
  })
})

describe('What the owner approves while nobody waits', () => {
  it('is collected, and the call made, only when somebody asks again', async () => {
    const name = `collected-${unique()}`
    const trade = { symbol: 'VTI', qty: unique() }
    const { call } = await bridge({ name, capabilities: FORM })
    const leaving = new AbortController()
    const left = call('place_trade', trade, { signal: leaving.signal })
    left.catch(() => undefined)
    const { family } = await waiting()
    const path = await recordOf(name)
    leaving.abort()
    await expect(left).rejects.toThrow()
    // The poll that was held for this caller is over, and another window may go on with the request.
    const isOffered = async (): Promise<boolean> =>
      (await filesIn(stand.folder)).some(
        file => file.path.includes(`/${name}-`) && file.path.endsWith('.offered'),
      )
    await expect.poll(isOffered, BUSY).toBe(true)
    await stand.owner.decide(family, 'approved')
    // Another client polls meanwhile, each time after the interval at which the first would have polled, too.
    const sent = join(stand.folder, `${name}.sent`)
    await writeFile(sent, '')
    const other = await bridge({
      name: `other-${unique()}`,
      capabilities: FORM,
      environment: sendingInto(sent),
    })
    const answer = other.call('place_trade', { symbol: 'BND', qty: unique() })
    answer.catch(() => undefined)
    const requests = async () =>
      (await readSent(sent)).filter(({ url }) => new URL(url).pathname === '/token')
    // The terms, the agreement, three polls that the authority has answered, and the one after them.
    await until(async () => (await requests()).length >= 6)
    await stand.owner.decide((await waiting()).family, 'denied')
    expect((await answer).isError).toBe(true)
    expect(JSON.parse(await readFile(path, 'utf8'))).toMatchObject({ phase: { name: 'waiting' } })
    expect(executions('place_trade', trade)).toBe(0)
    expect((await call('place_trade', trade)).text).toBe(`Bought ${trade.qty} VTI`)
    expect(executions('place_trade', trade)).toBe(1)
    expect(await pendingOf(stand.owner)).toEqual([])
  })
})

describe('A bridge that starts again', () => {
  it('leaves who was waiting the whole of --linger to come back, however long ago she was asked', async () => {
    const name = `back-${unique()}`
    const trade = { symbol: 'VTI', qty: unique() }
    const first = await bridge({ name, capabilities: FORM })
    first.call('place_trade', trade).catch(() => undefined)
    const { family } = await waiting()
    const path = await recordOf(name)
    await first.kill()
    const record = JSON.parse(await readFile(path, 'utf8')) as { since: number }
    await writeFile(path, JSON.stringify({ ...record, since: record.since - 7200 }))
    const { call } = await bridge({ name, capabilities: FORM, args: ['--client-name', name] })
    // It has looked at what was left.
    await expect
      .poll(async () => (JSON.parse(await readFile(path, 'utf8')) as { left?: number }).left, BUSY)
      .toBeGreaterThan(0)
    expect((await pendingOf(stand.owner)).map(item => item.family)).toEqual([family])
    const answer = call('place_trade', trade)
    answer.catch(() => undefined)
    await stand.owner.decide(family, 'approved')
    expect((await answer).text).toBe(`Bought ${trade.qty} VTI`)
    expect(executions('place_trade', trade)).toBe(1)
  })
})

describe('The folder of keys, grants and requests', () => {
  const own = join(homedir(), '.local', 'state', 'usher')
  it.each<[string, object, string]>([
    ['of the user, where nothing is said', {}, own],
    ['in XDG_STATE_HOME', { stateHome: '/state' }, '/state/usher'],
    ['that UMA_BRIDGE_STATE names, before all else', { stateHome: '/state', bridgeState: '/kept' }, '/kept'],
    ['below the home of the user, where it begins so', { bridgeState: '~/kept' }, join(homedir(), 'kept')],
  ])('is the one %s', (_which, config, folder) => {
    expect(stateRoot(config as ClientConfig)).toBe(folder)
  })
})

describe('What is kept of where the server of a tool asks', () => {
  it('is of that tool alone, and is forgotten on demand and after thirty days', async () => {
    const { folder, remove } = await bridgeFolder()
    try {
      const state = bridgeState(folder, 'client')
      await state.keepQuestionStream('https://r.example/mcp', 'read', 'session')
      await state.keepQuestionStream('https://r.example/mcp', 'write', 'call')
      const again = bridgeState(folder, 'client')
      const streamOf = (tool: string) => again.questionStream('https://r.example/mcp', tool)
      expect(await streamOf('read')).toBe('session')
      expect(await streamOf('write')).toBe('call')
      expect(await again.questionStream('https://other.example/mcp', 'read')).toBeUndefined()
      await again.keepQuestionStream('https://r.example/mcp', 'write', undefined)
      expect(await streamOf('write')).toBeUndefined()
      const note = (await filesIn(state.folder)).find(({ text }) => text.includes('"session"'))!
      const { at, ...rest } = JSON.parse(note.text) as { at: number }
      await writeFile(note.path, JSON.stringify({ ...rest, at: at - 30 * 86_400_000 }))
      expect(await streamOf('read')).toBeUndefined()
    } finally {
      await remove()
    }
  })
})

describe('The key store', () => {
  it('gives one key for an owner and authority, whoever asks at once, and another for any other', async () => {
    const { folder, remove } = await bridgeFolder()
    try {
      const alice = { as_uri: 'https://a.example', owner: 'alice' }
      const states = Array.from({ length: 20 }, () => bridgeState(folder, 'client'))
      const same = await Promise.all(states.map(state => state.identity(alice)))
      expect(new Set(same.map(({ key }) => key.thumbprint)).size).toBe(1)
      const others = await Promise.all([
        bridgeState(folder, 'client').identity({ ...alice, owner: 'bob' }),
        bridgeState(folder, 'client').identity({ ...alice, as_uri: 'https://b.example' }),
        bridgeState(folder, 'another').identity(alice),
      ])
      expect(new Set([same[0]!, ...others].map(({ key }) => key.thumbprint)).size).toBe(4)
      const names = await readdir(folder, { recursive: true })
      expect(names.filter(name => name.includes('.key.json.'))).toEqual([])
    } finally {
      await remove()
    }
  })

  it('is not used where others can read it: the key and what signs the states of requests', async () => {
    const { folder, remove } = await bridgeFolder()
    try {
      const owner = { as_uri: 'https://a.example', owner: 'alice' }
      const state = bridgeState(folder, 'client')
      const [{ file }, signing] = [await state.identity(owner), await state.secret()]
      const refused = (path: string) => ({
        code: 'state_unusable',
        message: expect.stringContaining(
          `${path} has the mode 0644, so others can read it: chmod 600 ${path} `,
        ) as string,
      })
      const secret = join(state.folder, 'secret')
      await Promise.all([chmod(file, 0o644), chmod(secret, 0o644)])
      const again = bridgeState(folder, 'client')
      await expect(again.identity(owner)).rejects.toMatchObject(refused(file))
      await expect(again.secret()).rejects.toMatchObject(refused(secret))
      await Promise.all([chmod(file, 0o600), chmod(secret, 0o600)])
      expect(await again.secret()).toEqual(signing)
      expect((await again.identity(owner)).file).toBe(file)
    } finally {
      await remove()
    }
  })

  it('is not made anew where it cannot be read', async () => {
    const { folder, remove } = await bridgeFolder()
    try {
      const owner = { as_uri: 'https://a.example', owner: 'alice' }
      const { file } = await bridgeState(folder, 'client').identity(owner)
      await rm(file)
      await mkdir(file)
      await expect(bridgeState(folder, 'client').identity(owner)).rejects.toMatchObject({
        code: 'state_unusable',
      })
    } finally {
      await remove()
    }
  })
})
