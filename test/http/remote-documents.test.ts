/**
 * Contract, "Operator documents" and "Limits": documents that others name, within the bounds of outbound
 * fetching.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { createFetchGate } from '../../src/http/outbound/fetch-gate.ts'
import { createOriginBudget } from '../../src/http/outbound/origin-budget.ts'
import { createOutbound, type Outbound } from '../../src/http/outbound/outbound.ts'
import {
  createRemoteDocuments,
  type Looking,
  type RemoteDocuments,
} from '../../src/http/outbound/remote-documents.ts'
import { startScriptedServer, type ScriptedServer } from '../support/scripted-http.ts'
import { until } from '../support/until.ts'

let server: ScriptedServer
let outbound: Outbound
let now: number
let documents: RemoteDocuments

beforeAll(async () => {
  server = await startScriptedServer(({ path }) =>
    path.startsWith('/nothing/') ? { status: 404 } : { body: { path } },
  )
  outbound = createOutbound({ devLoopback: true, publicOnly: true })
})
afterAll(async () => {
  await outbound.close()
  await server.close()
})
beforeEach(() => {
  now = 1_000_000
  documents = createRemoteDocuments({ outbound, clock: () => now })
})

let paths = 0
const newPath = () => `/document-${paths++}`
const read = (path: string, looking: Partial<Looking> = {}) =>
  documents.read(server.origin + path, { deadline: now + 3_000, favoured: false, ...looking })

describe('A document is kept', () => {
  test('and where reading it ahead fails, whoever needs it tries again at once', async () => {
    const path = newPath()
    server.script(path, () => ({ status: 503 }))
    expect(await read(path, { ahead: true })).toMatchObject({ reason: 'status' })
    server.script(path, () => ({ body: { path } }))
    expect(await read(path)).toMatchObject({ json: { path } })
  })

  test('300 seconds if it holds what is looked for', async () => {
    const path = newPath()
    expect(await read(path)).toMatchObject({ json: { path } })
    now += 299_000
    await read(path, { holds: () => true })
    expect(server.to(path)).toHaveLength(1)
    now += 2_000
    await read(path, { holds: () => true })
    expect(server.to(path)).toHaveLength(2)
  })

  test('10 seconds if it does not: what was just published is soon found', async () => {
    const path = newPath()
    let keys = ['old']
    server.script(path, () => ({ body: { keys } }))
    const lists = (json: unknown) => (json as { keys: string[] }).keys.includes('new')
    await read(path, { holds: lists })
    keys = ['old', 'new']
    now += 9_000
    expect(await read(path, { holds: lists })).toMatchObject({ json: { keys: ['old'] } })
    now += 2_000
    expect(await read(path, { holds: lists })).toMatchObject({ json: { keys: ['old', 'new'] } })
    expect(server.to(path)).toHaveLength(2)
  })

  test('one second if it does not, and was read before the request was signed: a key may be published and used at once', async () => {
    const path = newPath()
    let keys = ['old']
    server.script(path, () => ({ body: { keys } }))
    const holds = (json: unknown) => (json as { keys: string[] }).keys.includes('new')
    const readAt = now
    await read(path, { holds })
    keys = ['old', 'new']
    now = readAt + 999
    await read(path, { holds, signedAt: readAt + 500 })
    now = readAt + 1_000
    // Signed before it was read: what is not there was not there.
    await read(path, { holds, signedAt: readAt })
    await read(path, { holds })
    expect(server.to(path)).toHaveLength(1)
    expect(await read(path, { holds, signedAt: readAt + 500 })).toMatchObject({ json: { keys } })
    expect(server.to(path)).toHaveLength(2)
    // However often it is asked for what is not there, once a second.
    const lost = { holds: () => false, signedAt: readAt + 60_000 }
    for (let ms = 0; ms <= 3_000; ms += 100) {
      now = readAt + 1_000 + ms
      await read(path, lost)
    }
    expect(server.to(path)).toHaveLength(5)
  })

  test('and a failure 10 seconds, without losing what was read before', async () => {
    const path = newPath()
    await read(path)
    server.script(path, { status: 500 })
    now += 11_000
    const lost = { holds: () => false }
    expect(await read(path, lost)).toMatchObject({ json: { path } })
    now += 5_000
    expect(await read(path, lost)).toMatchObject({ json: { path } })
    expect(server.to(path)).toHaveLength(2)
    now += 6_000
    await read(path, lost)
    expect(server.to(path)).toHaveLength(3)
    // Past its 300 seconds it is not known any more, whatever the failure.
    now += 290_000
    expect(await read(path, lost)).toMatchObject({ missing: 'was answered with 500, not 200' })
  })
})

describe('One fetch per URL at a time', () => {
  test('for any number of callers at once, hit or miss', async () => {
    for (const reply of [{ body: {} }, { status: 404 }]) {
      const path = newPath()
      server.script(path, reply)
      const answers = await Promise.all(Array.from({ length: 50 }, () => read(path)))
      expect(new Set(answers.map(answer => JSON.stringify(answer))).size).toBe(1)
      expect(server.to(path)).toHaveLength(1)
    }
  })

  test('a caller whose time is over goes on without; the document is there for the next', async () => {
    const path = newPath()
    let release: () => void = () => undefined
    const held = new Promise<void>(resolve => (release = resolve))
    server.script(path, async () => {
      await held
      return { body: { late: true } }
    })
    expect(await read(path, { deadline: now + 20 })).toMatchObject({ missing: 'did not come in time' })
    release()
    expect(await read(path)).toMatchObject({ json: { late: true } })
    expect(server.to(path)).toHaveLength(1)
  })
})

describe('What is not a document', () => {
  test.each<[string, Parameters<ScriptedServer['script']>[1], string]>([
    ['another status', { status: 201, body: {} }, 'was answered with 201, not 200'],
    ['a redirect', { status: 302, headers: { location: '/' } }, 'was answered with 302, not 200'],
    [
      'another media type',
      { body: '{}', headers: { 'content-type': 'text/json' } },
      'has no JSON media type',
    ],
    [
      'two media types',
      { body: '{}', headers: { 'content-type': 'text/html, application/json' } },
      'has no JSON media type',
    ],
    [
      'a type that only begins so',
      { body: '{}', headers: { 'content-type': 'application/jsonp' } },
      'has no JSON media type',
    ],
    [
      'malformed JSON',
      { body: Buffer.from('{'), headers: { 'content-type': 'application/json' } },
      'is no well-formed JSON',
    ],
    [
      'a byte order mark',
      { body: Buffer.from('\ufeff{}'), headers: { 'content-type': 'application/json' } },
      'is no well-formed JSON',
    ],
    [
      'a member named twice',
      { body: Buffer.from('{"a":1,"a":1}'), headers: { 'content-type': 'application/json' } },
      'is no well-formed JSON',
    ],
    ['over 64 KiB', { body: { filler: 'x'.repeat(65_536) } }, 'is too large'],
    ['a connection that breaks', { write: response => void response.destroy() }, 'could not be fetched'],
  ])('%s is missing, and says why', async (_what, script, missing) => {
    const path = newPath()
    server.script(path, script)
    expect(await read(path)).toMatchObject({ missing })
  })

  test.each([
    ['no URL', 'document', 'stands at no address'],
    ['http to the world', 'http://bots.example/x', 'stands at an address that is not fetched from'],
    ['a private address', 'https://192.168.0.1/x', 'stands at no public address'],
    ['a name of this machine', 'https://localhost/x', 'stands at no public address'],
    ['user information', 'https://a:b@bots.example/x', 'stands at an address that is not fetched from'],
  ])('nor %s', async (_what, url, missing) => {
    expect(await documents.read(url, { deadline: now + 3_000, favoured: false })).toMatchObject({ missing })
  })
})

describe('At most 16 are fetched at once', () => {
  const gate = () => createFetchGate({ placesMax: 16, favouredPlaces: 4, perOriginMax: 2, waitingMax: 8 })
  const enter = (g: ReturnType<typeof gate>, origin: string, favoured = false, waitMs = 0) =>
    g.enter(origin, { favoured, waitMs })

  test('12 for strangers, and the last four places for those that are known', async () => {
    const g = gate()
    const strangers = await Promise.all(
      Array.from({ length: 20 }, (_, n) => enter(g, `https://s${n}.example`)),
    )
    expect(strangers.filter(Boolean)).toHaveLength(12)
    const known = await Promise.all(
      Array.from({ length: 6 }, (_, n) => enter(g, `https://k${n}.example`, true)),
    )
    expect(known.filter(Boolean)).toHaveLength(4)
    strangers[0]!()
    expect(await enter(g, 'https://s.example')).toBeUndefined()
    expect(await enter(g, 'https://k.example', true)).toBeDefined()
  })

  test('two of one origin, four if it is known', async () => {
    const g = gate()
    const of = (favoured: boolean, count: number) =>
      Promise.all(Array.from({ length: count }, () => enter(g, 'https://one.example', favoured)))
    expect((await of(false, 5)).filter(Boolean)).toHaveLength(2)
    expect((await of(true, 5)).filter(Boolean)).toHaveLength(2)
  })

  test('whoever waits is served in order, the known first, and gives up in time', async () => {
    const g = gate()
    const places = await Promise.all(
      Array.from({ length: 16 }, (_, n) => enter(g, `https://s${n}.example`, true)),
    )
    const order: string[] = []
    const wait = async (name: string, favoured: boolean) => {
      const leave = await enter(g, `https://${name}.example`, favoured, 5_000)
      order.push(name)
      return leave
    }
    const waiting = [wait('first', false), wait('second', false), wait('known', true)]
    const impatient = enter(g, 'https://impatient.example', true, 10)
    expect(await impatient).toBeUndefined()
    for (const leave of places.slice(0, 6)) leave!()
    await until(() => order.length === 2)
    expect(order).toEqual(['known', 'first'])
    places[6]!()
    await Promise.all(waiting)
    expect(order).toEqual(['known', 'first', 'second'])
  })

  test('only so many may wait, the known among them twice as many', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    const g = gate()
    const places = await Promise.all(
      Array.from({ length: 16 }, (_, n) => enter(g, `https://s${n}.example`, true)),
    )
    const wait = (name: string, favoured: boolean) => enter(g, `https://${name}.example`, favoured, 500)
    const waiting = Array.from({ length: 8 }, (_, n) => wait(`w${n}`, false))
    expect(await wait('more', false)).toBeUndefined()
    waiting.push(...Array.from({ length: 8 }, (_, n) => wait(`k${n}`, true)))
    expect(await wait('more', true)).toBeUndefined()
    for (const leave of places) leave!()
    await vi.advanceTimersByTimeAsync(500)
    expect((await Promise.all(waiting)).filter(Boolean)).toHaveLength(12)
  })

  test('by the store too: slow servers of strangers do not keep out one that is known', async () => {
    let held = 0
    const slow = await Promise.all(
      Array.from({ length: 14 }, () => startScriptedServer(() => ({ write: () => void (held += 1) }))),
    )
    const strangers = slow.map(one =>
      documents.read(`${one.origin}/x`, { deadline: now + 50, favoured: false }),
    )
    await until(() => held === 12)
    const known = newPath()
    expect(await read(known, { favoured: true })).toMatchObject({ json: { path: known } })
    for (const stranger of await Promise.all(strangers))
      expect(stranger).toMatchObject({ missing: 'did not come in time' })
    expect(held).toBe(12)
    await Promise.all(slow.map(one => one.close()))
  })
})

describe('At most 60 new origins a minute', () => {
  const budget = () => createOriginBudget({ clock: () => now, perMinute: 60, perSite: 10 })

  test('each charged once a minute', () => {
    const b = budget()
    for (let n = 0; n < 60; n++) expect(b.admits(`https://o${n}.o${n}.example${n}`)).toBe(true)
    expect(b.admits('https://late.example')).toBe(false)
    expect(b.admits('https://o0.o0.example0')).toBe(true)
    now += 60_000
    expect(b.admits('https://late.example')).toBe(true)
  })

  test('ten of them under one site, since subdomains are free', () => {
    const b = budget()
    for (let n = 0; n < 10; n++) expect(b.admits(`https://s${n}.wild.example`)).toBe(true)
    expect(b.admits('https://s10.wild.example')).toBe(false)
    expect(b.admits('https://deep.s10.wild.example')).toBe(false)
    expect(b.admits('https://tame.example')).toBe(true)
    for (let n = 0; n < 10; n++) expect(b.admits(`https://192.0.2.1:${1000 + n}`)).toBe(true)
    expect(b.admits('https://192.0.2.1:2000')).toBe(false)
    for (let n = 0; n < 10; n++) expect(b.admits(`https://[2001:db8::${n}]`)).toBe(true)
    expect(b.admits('https://[2001:db8:1::1]')).toBe(false)
  })

  test('an origin that served a document is new no more; one that did not answer is charged again', () => {
    const b = createOriginBudget({ clock: () => now, perMinute: 2, perSite: 2 })
    expect(b.admits('https://good.example')).toBe(true)
    b.served('https://good.example')
    expect(b.admits('https://bad.test')).toBe(true)
    b.failed('https://bad.test')
    expect(b.admits('https://bad.test')).toBe(false)
    now += 30_000
    for (let n = 0; n < 100; n++) expect(b.admits('https://good.example')).toBe(true)
  })

  test('over that a document is not read, which is not remembered; one that is known is read all the same', async () => {
    documents = createRemoteDocuments({ outbound, clock: () => now, newOriginsPerMinute: 1 })
    const other = await startScriptedServer(() => ({ body: {} }))
    const gone = await startScriptedServer(() => undefined)
    await gone.close()
    expect(
      await documents.read(`${gone.origin}/x`, { deadline: now + 3_000, favoured: false }),
    ).toMatchObject({ missing: 'could not be reached' })
    const asked = { deadline: now + 3_000, favoured: false }
    expect(await documents.read(`${other.origin}/x`, asked)).toMatchObject({
      missing: 'was not read: too many new operators are named now',
    })
    expect(other.received).toEqual([])
    expect(await documents.read(`${other.origin}/x`, { ...asked, favoured: true })).toMatchObject({
      json: {},
    })
    await other.close()
  })
})

describe('What is kept is bounded', () => {
  test('by 8 MiB: the documents used longest ago are forgotten', async () => {
    const filler = 'x'.repeat(60_000)
    const first = newPath()
    await read(first)
    const many = Array.from({ length: 150 }, newPath)
    for (const path of many) server.script(path, { body: { filler } })
    for (const path of many) expect(await read(path)).toMatchObject({ json: { filler } })
    await read(first)
    expect(server.to(first)).toHaveLength(2)
    await read(many.at(-1)!)
    expect(server.to(many.at(-1)!)).toHaveLength(1)
  })

  test('by 2,000 addresses: those where nothing is are forgotten before any document', async () => {
    const first = newPath()
    await read(first)
    for (let n = 0; n < 2_100; n += 100)
      await Promise.all(Array.from({ length: 100 }, (_, m) => read(`/nothing/${n + m}`, { favoured: true })))
    await read(first)
    expect(server.to(first)).toHaveLength(1)
    const before = server.received.length
    await read('/nothing/2099')
    expect(server.received.length).toBe(before)
    await read('/nothing/0')
    expect(server.received.length).toBe(before + 1)
  })
})
