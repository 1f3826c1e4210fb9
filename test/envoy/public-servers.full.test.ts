/**
 * Four servers that nobody here wrote, by each way through usher: every tool, resource and prompt answers as
 * it does directly. contract, "Authorized call" (what is let through is executed as it was sent) and
 * "Challenge (beat 1)" ("Where there is no status line").
 */
import type { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { proposalFor } from '../../src/agent/bridge/survey/block.ts'
import type { Envoy } from '../../src/dev/stack/envoy-binary.ts'
import { envoy } from '../support/envoy.ts'
import {
  answersOf,
  listsOf,
  newClient,
  newFolder,
  SAMPLES,
  stdioOf,
  type Listed,
} from '../support/public-servers.ts'
import { behindBridge } from '../support/public-bridge.ts'
import {
  behindEnvoy,
  behindGuard,
  behindHandler,
  type Closers,
  type Opened,
  type Surveyed,
} from '../support/public-ways.ts'
import { describeWith, type Requirement } from '../support/requirement.ts'
import { until } from '../support/until.ts'

type Answers = Awaited<ReturnType<typeof answersOf>>

/** What a server answers without usher. */
interface Direct extends Surveyed {
  lists: Listed
  answers: Answers
}

const direct = new Map<string, Direct>()
const open: Closers = []

beforeAll(async () => {
  for (const sample of SAMPLES) {
    const { folder, remove } = newFolder()
    const client = newClient(folder)
    await client.connect(stdioOf(sample, folder))
    // A server may register more tools once it knows what its client can do.
    await client.ping()
    const lists = await listsOf(client)
    const proposal = proposalFor(lists.tools, 'alice', client.getServerCapabilities())
    const answers = await answersOf(sample, { client, folder }, lists)
    direct.set(sample.name, { sample, proposal, lists, answers })
    await client.close()
    remove()
  }
}, 120_000)
afterAll(async () => {
  for (const close of open.reverse()) await close()
})

describe('Each sample', () => {
  test.each(SAMPLES)('of $name is a tool that the server lists', ({ name, calls }) => {
    const { lists } = direct.get(name)!
    expect(lists.tools.length).toBeGreaterThan(0)
    expect(calls('').filter(([tool]) => !lists.tools.some(one => one.name === tool))).toEqual([])
  })
})

/** The direct answers as a way has them: with its own, and with what it lists of a tool. */
function asBy({ listed, own }: Opened, answers: Answers): Answers {
  return answers.map(([what, answer]) => {
    if (what === 'tools/list' && listed !== undefined) return [what, onlyMembers(answer, listed)]
    return own?.has(what) === true ? [what, own.get(what)] : [what, answer]
  })
}

function onlyMembers(list: unknown, members: readonly string[]): unknown {
  const { tools } = list as { tools: object[] }
  return tools.map(tool =>
    Object.fromEntries(Object.entries(tool).filter(([name]) => members.includes(name))),
  )
}

/** Answers by a way, next to those without it. */
function answersAlike(opening: () => Opened): void {
  test.each(SAMPLES)(
    'answers for each tool, resource and prompt of $name what the server answers directly',
    async sample => {
      const { lists, answers } = direct.get(sample.name)!
      const way = opening()
      const { folder, remove } = newFolder()
      const client: Client = newClient(folder)
      try {
        await way.connect(client, sample, folder)
        await until(async () => (await listsOf(client)).tools.length === lists.tools.length)
        const before = way.asked()
        const found = await answersOf(sample, { client, folder }, lists)
        expect(asBy({ ...way, own: new Map() }, found)).toEqual(asBy(way, answers))
        // Each call was judged under the grant, and none went by.
        expect(way.asked() - before).toBeGreaterThanOrEqual(lists.tools.length)
      } finally {
        await client.close()
        remove()
      }
    },
  )
}

type Start = (surveyed: readonly Surveyed[], open: Closers) => Promise<Opened>

function withEnvoy(requirement: Requirement<Envoy>): Requirement<Start> {
  if (!('found' in requirement)) return requirement
  return { found: (surveyed, closers) => behindEnvoy(surveyed, closers, requirement.found) }
}

const WAYS: [title: string, start: Requirement<Start>][] = [
  ['guard over stdio', { found: behindGuard }],
  ['an HTTP server that embeds usher', { found: behindHandler }],
  ['one Envoy listener with one sidecar for all of them', withEnvoy(await envoy())],
  ['the bridge over stdio, to a resource that embeds usher', { found: behindBridge }],
]

for (const [title, requirement] of WAYS)
  describeWith(requirement, title, start => {
    let way: Opened
    beforeAll(async () => {
      way = await start([...direct.values()], open)
    }, 120_000)
    answersAlike(() => way)
  })
