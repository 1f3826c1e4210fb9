/** Reports that wait in files: contract, "Events", 2, and the choices on `reports.state_dir`. */
import {
  appendFileSync,
  chmodSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  createAccessReports,
  type AccessReports,
  type AccessReportsOptions,
} from '../../src/enforcement/authorities/access-reports.ts'
import {
  createAuthorityClient,
  type AuthorityClient,
} from '../../src/enforcement/authorities/authority-client.ts'
import { createJwksCache } from '../../src/http/outbound/jwks-cache.ts'
import { createOutbound, type Outbound } from '../../src/http/outbound/outbound.ts'
import { asClientId, asFamily, asOwner } from '../../src/wire/identifiers.ts'
import { startScriptedAuthority, type ScriptedAuthority } from '../support/scripted-authority.ts'
import { sentTo, toldReports } from '../support/told-reports.ts'
import { until } from '../support/until.ts'

let authority: ScriptedAuthority
let outbound: Outbound
let path: string
let dropped: [number, string][]
let left: string[]
let opened: AccessReports[]

beforeEach(async () => {
  path = mkdtempSync(join(tmpdir(), 'usher-reports-'))
  authority = await startScriptedAuthority()
  outbound = createOutbound({ devLoopback: true })
  dropped = []
  left = []
  opened = []
})
afterEach(async () => {
  for (const reports of opened) await reports.close(0)
  await Promise.all([outbound.close(), authority.close()])
  rmSync(path, { recursive: true, force: true })
})

const clientOf = (owner: string): AuthorityClient =>
  createAuthorityClient({
    authority: authority.issuer,
    owner: asOwner(owner),
    resource: `https://tools.example.com/mcp/${owner}`,
    client_id: asClientId('demo-tools'),
    credential: { kind: 'secret', secret: 'shh' },
    pools: { challenges: outbound, grants: outbound },
    keys: createJwksCache({ outbound, clock: Date.now }),
    clock: Date.now,
  })

/** Another process, with the same directory or another; none of them ends but by `close`. */
function open(
  clients: AuthorityClient[],
  options: Partial<AccessReportsOptions> & { bytesMax?: number } = {},
): AccessReports {
  const { bytesMax = 1_000_000, ...more } = options
  const reports = createAccessReports({
    clock: Date.now,
    gatherMs: 1,
    retryMs: { first: 5, most: 20 },
    onDropped: (count, why) => dropped.push([count, why]),
    onLeft: (where, why) => left.push(`${where.split('/').at(-1)!.slice(0, 4)}: ${why}`),
    clients,
    state: { path, bytesMax, lifeMs: 20 },
    ...more,
  })
  opened.push(reports)
  return reports
}
const report = (tool: string) => ({ family: asFamily('fam_x'), jti: 'rpt_x', tool, summary: 's256:x', at: 1 })
const add = (reports: AccessReports, client: AuthorityClient, tools: string[], changes: object = {}) => {
  for (const tool of tools) reports.add(client, { ...report(tool), ...changes })
}
const bodies = () => sentTo(authority.received)
const told = (): string[] => toldReports(authority.received).map(({ tool }) => tool)
/** As an authority counts them: by run and number. */
const counted = (): string[] => [
  ...new Map(toldReports(authority.received).map(entry => [entry.id, entry.tool] as const)).values(),
]
const goodbyes = (): number[] => bodies().flatMap(({ ended, n }) => (ended === true ? [n!] : []))
/** Journals in the directory, of whichever run. */
const journals = (): string[] =>
  readdirSync(path, { recursive: true, encoding: 'utf8' }).filter(name =>
    /\/[0-9a-f]{24}\.[0-9a-f]{16}$/.test(name),
  )
const segments = (): string[] =>
  readdirSync(path, { recursive: true, encoding: 'utf8' }).filter(name => /\/\d{10}$/.test(name))
const away = () => authority.script('/audit/access', { status: 503, body: {} })
const back = () => authority.script('/audit/access', undefined)

/**
 * What a killed process leaves: its directory as it stands, while it goes on elsewhere and can tell nobody.
 */
async function leave(client: AuthorityClient, tools: string[], changes: object = {}): Promise<void> {
  away()
  const killed = open([client])
  add(killed, client, tools, changes)
  const copy = `${path}-copy`
  renameSync(path, copy)
  await killed.close(0)
  renameSync(copy, path)
  rmSync(`${path}-copy`, { recursive: true, force: true })
  authority.received.length = 0
  back()
}

describe('What a process left is sent by the next', () => {
  test('under the same run and numbers, with a goodbye for it, and then removed', async () => {
    const alice = clientOf('alice')
    await leave(alice, ['a', 'b', 'c'])
    open([alice])
    await until(() => goodbyes().length === 1)
    expect([told(), goodbyes()]).toEqual([['a', 'b', 'c'], [3]])
    expect(toldReports(authority.received).map(({ n }) => n)).toEqual([1, 2, 3])
    await until(() => journals().length === 0)
    expect(readdirSync(path)).toHaveLength(1)
  })

  test('also a report without the id of its grant, which not every authority gives', async () => {
    const alice = clientOf('alice')
    await leave(alice, ['a'], { jti: undefined })
    open([alice])
    await until(() => goodbyes().length === 1)
    expect([told(), goodbyes(), dropped]).toEqual([['a'], [1], []])
    expect(toldReports(authority.received)[0]).not.toHaveProperty('jti')
  })

  test('but for a last one that was cut off: its call was never let through', async () => {
    const alice = clientOf('alice')
    await leave(alice, ['a', 'b'])
    appendFileSync(join(path, segments()[0]!), 'deadbeef {"n":3,"fam')
    open([alice])
    await until(() => goodbyes().length === 1)
    expect([told(), goodbyes(), dropped]).toEqual([['a', 'b'], [2], []])
  })

  test('and one that is damaged is counted, its number is left out, and no goodbye says that all is well', async () => {
    const alice = clientOf('alice')
    await leave(alice, ['a', 'b', 'c'])
    const file = join(path, segments()[0]!)
    writeFileSync(file, readFileSync(file, 'utf8').replace('"tool":"b"', '"tool":"x"'))
    open([alice])
    await until(() => bodies().some(({ ended }) => ended === false))
    expect([told(), goodbyes()]).toEqual([['a', 'c'], []])
    expect(dropped).toEqual([[1, 'they were damaged in the directory of reports']])
  })

  test('and waits with its goodbye until it is known that the authority reads one', async () => {
    await leave(clientOf('alice'), ['a'])
    authority.script('/audit/access', { status: 400, body: {} })
    const alice = clientOf('alice')
    const next = open([alice], { quietMs: 60 })
    await until(() => dropped.length === 1)
    expect([told(), bodies().length]).toEqual([['a'], 1])
    back()
    add(next, alice, ['own'])
    await until(() => goodbyes().length === 1)
    expect(told()).toEqual(['a', 'own'])
  })

  test('by one of several that share the directory, and each owner by who serves her', async () => {
    const [alice, bea] = [clientOf('alice'), clientOf('bea')]
    await leave(alice, ['a1', 'a2'])
    await leave(bea, ['b1'])
    open([alice])
    open([alice])
    open([bea])
    await until(() => goodbyes().length === 2)
    expect([told().toSorted(), goodbyes().toSorted()]).toEqual([
      ['a1', 'a2', 'b1'],
      [1, 2],
    ])
  })

  test('nothing is taken of a run that is alive', async () => {
    const alice = clientOf('alice')
    away()
    const living = open([alice])
    add(living, alice, ['a'])
    open([alice])
    const before = journals()
    const rounds = authority.count('/audit/access')
    await until(() => authority.count('/audit/access') > rounds + 20)
    expect(journals()).toEqual(before)
    back()
    await until(() => told().length > 0)
    await living.close(1_000)
    expect(counted()).toEqual(['a'])
  })

  test('files of another version, and of an owner who is not configured, stay and are told of once', async () => {
    const [alice, bea] = [clientOf('alice'), clientOf('bea')]
    await leave(alice, ['a'])
    const file = join(path, segments()[0]!)
    writeFileSync(
      file,
      readFileSync(file, 'utf8').replace('usher-access-reports 1', 'usher-access-reports 2'),
    )
    await leave(bea, ['b'])
    const next = open([alice])
    await until(() => next.left() === 2)
    expect(left.map(line => line.slice(6)).toSorted()).toEqual([
      'it is of another version, or damaged',
      'its owner is not configured here',
    ])
    expect([journals().length, told()]).toEqual([2, []])
    open([alice, bea])
    await until(() => told().length === 1)
  })
})

describe('A process that goes on', () => {
  test('sends what it writes, and removes the files whose reports were taken, but for the last', async () => {
    const alice = clientOf('alice')
    const reports = open([alice])
    const tools = Array.from({ length: 2_000 }, (_, n) => `t${n}`)
    add(reports, alice, tools)
    expect(segments().length).toBeGreaterThan(2)
    await until(() => told().length === 2_000)
    await until(() => reports.waiting() === 0)
    expect([told(), segments().length, reports.bytes()]).toEqual([tools, 1, 0])
    add(reports, alice, ['later'])
    await until(() => told().length === 2_001)
    await reports.close(1_000)
    expect([goodbyes(), readdirSync(path)]).toEqual([[2_001], []])
  })

  test('keeps what cannot be sent at its end for the next one', async () => {
    const alice = clientOf('alice')
    away()
    const reports = open([alice])
    add(reports, alice, ['a', 'b'])
    await reports.close(50)
    expect(dropped).toEqual([])
    back()
    open([alice])
    await until(() => goodbyes().length === 1)
    expect([counted(), goodbyes()]).toEqual([['a', 'b'], [2]])
  })

  test('writes for itself alone', async () => {
    const alice = clientOf('alice')
    add(open([alice]), alice, ['a'])
    const [file] = segments()
    expect(statSync(join(path, file!)).mode & 0o077).toBe(0)
  })

  test('that was away for too long begins anew, and what it had is told by another once', async () => {
    const alice = clientOf('alice')
    away()
    let asleep = false
    const clock = () => Date.now() - (asleep ? Date.now() - sleptAt : 0)
    let sleptAt = 0
    const reports = open([alice], { clock })
    add(reports, alice, ['a', 'b'])
    sleptAt = Date.now()
    asleep = true // by its clock no time passes, so that it gives no sign of life
    open([alice])
    await until(
      () =>
        journals().length === 1 &&
        journals()[0]!.split('/')[0] !== journals()[0]!.split('/')[1]!.split('.')[0],
    )
    asleep = false
    back()
    reports.ready(alice)
    add(reports, alice, ['c'])
    await until(() => counted().length === 3)
    expect(counted().toSorted()).toEqual(['a', 'b', 'c'])
    const runs = new Set(toldReports(authority.received).map(({ instance }) => instance))
    expect(runs.size).toBe(2)
  })
})

describe('A directory that takes no more', () => {
  const refusal = (work: () => void): unknown => {
    try {
      work()
      return 'taken'
    } catch (error) {
      return (error as { code?: string }).code
    }
  }

  test('is full: calls are refused that may be tried again, of the owner whose authority takes none, until it does', async () => {
    const [alice, bea] = [clientOf('alice'), clientOf('bea')]
    authority.script('/audit/access', ({ body }) => ({
      status: body.includes('"big') ? 503 : 200,
      body: { recorded: 1 },
    }))
    const reports = open([alice, bea], { bytesMax: 20_000 })
    let count = 0
    await until(() => {
      add(reports, alice, [`big${count++}`, `big${count++}`])
      return refusal(() => reports.ready(alice)) !== 'taken'
    })
    expect(refusal(() => reports.ready(alice))).toBe('temporarily_unavailable')
    expect(refusal(() => reports.ready(bea))).toBe('taken')
    back()
    await until(() => refusal(() => reports.ready(alice)) === 'taken')
  })

  test('cannot be written: the call is refused, and let through once it can be', async () => {
    const alice = clientOf('alice')
    const reports = open([alice])
    const run = readdirSync(path)[0]!
    // A file where the journals would stand: nobody can write there, not even root.
    const journal = join(path, run)
    add(reports, alice, ['a'])
    await until(() => reports.waiting() === 0)
    const name = journals()[0]!.split('/')[1]!
    renameSync(join(journal, name), join(path, 'aside'))
    writeFileSync(join(journal, name), '')
    expect(refusal(() => add(reports, alice, ['b']))).toBe('temporarily_unavailable')
    rmSync(join(journal, name))
    await until(() => refusal(() => reports.ready(alice)) === 'taken')
    add(reports, alice, ['c'])
    await until(() => told().includes('c'))
    expect(told()).toEqual(['a', 'c'])
  })

  test('at the start: it does not start, and says what to do', () => {
    const file = join(path, 'file')
    writeFileSync(file, '')
    chmodSync(file, 0o400)
    expect(() => open([], { state: { path: join(file, 'x'), bytesMax: 1_000_000 } })).toThrow(
      /reports\.state_dir: .*Give a directory that this process may write/,
    )
  })
})
