/**
 * Owns what `usher agent bridge` costs: how long it takes from its start until a client is connected, and how
 * much longer a call takes through it than one that the agent library signs itself, by the same client of the
 * official SDK under the same standing grant, in turns; and how long a write takes that its owner is asked
 * about and approves at once. By itself: `node bench/scenarios/bridge.ts`.
 */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { createAgent } from '../../src/agent/index.ts'
import { startStack, type Stack } from '../../src/dev/stack/stack.ts'
import { createOwnerClient } from '../../src/owner/client.ts'
import { generatePrivateJwk } from '../../src/wire/signatures/keys.ts'
import { bundledCommand } from '../../test/support/deployed.ts'
import { ROOT } from '../../test/support/repository.ts'
import { percentile, spreadOf, type Spread } from '../figures.ts'
import { obtainDatabase } from '../system.ts'
import { runByItself } from './by-itself.ts'

const STARTS = 5
const TURNS = 5
const CALLS = 100
const WARM_UP_CALLS = 50
const WRITES = 15

export interface BridgeCost {
  start_ms: number[]
  /** In turns with it: a program of Node that does nothing, from its start to its end. */
  bare_start_ms: number[]
  /** Turn by turn. */
  direct_p50_ms: number[]
  bridged_p50_ms: number[]
  added_p50_ms: number[]
  /** From the call to its answer, her decision included; the first of each is not among them. */
  approved_bridged_ms: number[]
  approved_direct_ms: number[]
}

/** Measures on its own stack and database. Takes about 20 s. */
export async function measureBridge(
  directory: string,
  { tell }: { tell: (line: string) => void },
): Promise<BridgeCost> {
  tell('bridge: starting its stack')
  const open: Client[] = []
  const stops: (() => Promise<void>)[] = []
  try {
    const { url } = await obtainDatabase(process.env['DATABASE_URL'], stops)
    const stack = await startStack({
      directory: join(directory, 'bridge'),
      databaseUrl: url,
      authorityEnvironment: { UMA_AS_POLL_SECONDS: '1' },
    })
    stops.push(() => stack.stop())
    const start = await bridgeStarter(stack, join(directory, 'bridge-state'))
    const start_ms: number[] = []
    const bare_start_ms: number[] = []
    while (start_ms.length < STARTS) {
      const began = performance.now()
      const client = await start()
      start_ms.push(performance.now() - began)
      await client.close()
      const bare = performance.now()
      await promisify(execFile)(process.execPath, ['--eval', '0'])
      bare_start_ms.push(performance.now() - bare)
    }
    open.push(await start(), await direct(stack))
    const [bridged, signed] = open.map(client => () => readPortfolio(client)) as [Call, Call]
    for (const call of [bridged, signed]) await granted(stack, call)
    for (let n = 0; n < WARM_UP_CALLS; n++) for (const call of [bridged, signed]) await call()
    const turns = []
    while (turns.length < TURNS) turns.push(await turn(bridged, signed))
    const [approved_bridged_ms, approved_direct_ms] = await approvedWrites(stack, open)
    return {
      start_ms,
      bare_start_ms,
      direct_p50_ms: turns.map(({ direct_p50 }) => direct_p50),
      bridged_p50_ms: turns.map(({ bridged_p50 }) => bridged_p50),
      added_p50_ms: turns.map(({ direct_p50, bridged_p50 }) => bridged_p50 - direct_p50),
      approved_bridged_ms,
      approved_direct_ms,
    }
  } finally {
    for (const client of open) await client.close()
    for (const stop of stops.toReversed()) await stop()
  }
}

/** The lines of the report. */
export function renderBridge(cost: BridgeCost): string {
  const { start_ms, bare_start_ms, direct_p50_ms, bridged_p50_ms, approved_bridged_ms, approved_direct_ms } =
    cost
  const shown = (times: number[]): string => {
    const { median, min, max } = spreadOf(times) as Spread
    return `${median.toFixed(2)} ms (${min.toFixed(2)} to ${max.toFixed(2)})`
  }
  return [
    'usher agent bridge',
    `  from start until a client is connected  ${shown(start_ms)}`,
    `  start and end of Node alone             ${shown(bare_start_ms)}`,
    `  p50 of a call signed by the library     ${shown(direct_p50_ms)}`,
    `  p50 of the same through the bridge      ${shown(bridged_p50_ms)}`,
    `  a write that she approves at once       ${shown(approved_direct_ms)}`,
    `  the same through the bridge             ${shown(approved_bridged_ms)}`,
  ].join('\n')
}

type Call = () => Promise<string>

async function turn(bridged: Call, signed: Call): Promise<{ direct_p50: number; bridged_p50: number }> {
  const times: [number[], number[]] = [[], []]
  for (let n = 0; n < CALLS; n++)
    for (const [at, call] of [signed, bridged].entries()) {
      const began = performance.now()
      if ((await call()) !== '12 VTI, 40 BND') throw new Error('a measured call was answered otherwise')
      times[at]!.push(performance.now() - began)
    }
  const [direct_p50, bridged_p50] = times.map(some =>
    percentile(
      some.toSorted((a, b) => a - b),
      0.5,
    ),
  ) as [number, number]
  return { direct_p50, bridged_p50 }
}

/** The times of each client's writes, in turns; a device of the owner approves whatever waits. */
async function approvedWrites(
  stack: Stack,
  [bridged, signed]: readonly Client[],
): Promise<[bridged: number[], direct: number[]]> {
  const times: [number[], number[]] = [[], []]
  for (let n = 0; n <= WRITES; n++)
    for (const [at, client] of [bridged!, signed!].entries()) {
      const write = async (): Promise<string> => {
        const args = { symbol: 'VTI', qty: n * 2 + at + 1 }
        const { content } = await client.callTool({ name: 'place_trade', arguments: args })
        return (content as { text: string }[])[0]!.text
      }
      const began = performance.now()
      const answer = await granted(stack, write)
      if (!answer.startsWith('Bought')) throw new Error(`an approved write was answered otherwise: ${answer}`)
      if (n > 0) times[at]!.push(performance.now() - began)
    }
  return times
}

async function readPortfolio(client: Client): Promise<string> {
  const { content } = await client.callTool({ name: 'portfolio_read', arguments: {} })
  return (content as { text: string }[])[0]!.text
}

/** The answer of a call; the owner approves what she is asked. */
async function granted(stack: Stack, call: Call): Promise<string> {
  const owner = createOwnerClient({
    api: stack.ownerApi,
    issuer: stack.issuer,
    key: stack.household.ownerKey,
  })
  const state = { ended: false }
  const first = call().finally(() => (state.ended = true))
  first.catch(() => undefined)
  while (!state.ended) for await (const { family } of owner.pending()) await owner.decide(family, 'approved')
  return first
}

/** Starts the bridge as it is deployed, under a client that accepts the terms. */
async function bridgeStarter(stack: Stack, state: string): Promise<() => Promise<Client>> {
  const [command, ...args] = (await bundledCommand(ROOT)) as [string, ...string[]]
  const env = { PATH: process.env['PATH']!, HOME: state, UMA_DEV_LOOPBACK: 'true', UMA_BRIDGE_STATE: state }
  return () =>
    connected(
      new StdioClientTransport({
        command,
        args: [...args, 'agent', 'bridge', stack.resource],
        env,
        stderr: 'inherit',
      }),
    )
}

function direct({ resource }: Stack): Promise<Client> {
  const agent = createAgent({ key: generatePrivateJwk(), allowLoopback: true })
  return connected(new StreamableHTTPClientTransport(new URL(resource), { fetch: agent.fetchFor(resource) }))
}

async function connected(transport: Parameters<Client['connect']>[0]): Promise<Client> {
  const client = new Client(
    { name: 'bench', version: '1' },
    { capabilities: { elicitation: {} }, versionNegotiation: { mode: { pin: '2026-07-28' } } },
  )
  client.setRequestHandler('elicitation/create', async () => ({ action: 'accept' as const, content: {} }))
  await client.connect(transport)
  return client
}

if (import.meta.main)
  await runByItself(async (directory, tell) => renderBridge(await measureBridge(directory, { tell })))
