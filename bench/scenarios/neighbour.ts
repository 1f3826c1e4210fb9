/**
 * Owns what one owner notices while another is flooded: bob's introspections and consumes at a fixed rate,
 * first alone; then during a flood of agents that is spread over many owners; and then during the same flood
 * on alice alone, while her queue row is locked, as by a replica that was stopped in the middle of a change.
 * docs/performance.md says what is compared, and why. By itself: `node bench/scenarios/neighbour.ts`.
 */
import { randomUUID } from 'node:crypto'
import { Client } from 'pg'
import { thumbprintHandle } from '../../src/wire/agents/handles.ts'
import { generatePrivateJwk, importPrivateJwk, type PrivateKey } from '../../src/wire/signatures/keys.ts'
import * as seed from '../../test/support/seed.ts'
import { spreadOf, type Spread } from '../figures.ts'
import { startOwnSystem, type System } from '../system.ts'
import { BOB_CALLS_PER_SECOND, openBob, worldOfSeeded, type Bob, type BobSaw } from './bob.ts'
import { runByItself } from './by-itself.ts'
import { Unexpected, openAuthority, type AuthorityDoor } from './negotiation.ts'
import { paced } from './paced.ts'

const FLOOD_PER_SECOND = 40
/** Owners that the flood is spread over if no row is held. */
const SPREAD_OVER = 40
const TURNS = 5
const PHASES = ['idle', 'spread', 'held'] as const
const SECONDS: Record<Phase, number> = { idle: 2, spread: 4, held: 4 }
/** Of the flood's connections: more than it can have unanswered. */
const IN_FLIGHT = 512
/**
 * Known to alice, so that each waits with many operations and no cap is met; each of the other owners knows
 * the first few.
 */
const AGENTS = 64
const AGENTS_OF_OTHERS = 8

type Phase = (typeof PHASES)[number]

export interface Neighbour {
  calls_per_second: number
  flood_per_second: number
  spread_over: number
  phases: Record<Phase, { p50_ms: Spread; p99_ms: Spread; errors: number; flood: Record<string, number> }>
  /** Turn by turn. */
  ratios: { overSpread: number[]; overIdle: number[] }
  /** Of bob's calls while alice was flooded, turn by turn. */
  errors: number[]
}

/** Bob, the flooded owner, and those of the flood that hurts nobody. */
interface Street {
  system: System
  bob: Bob
  alice: { owner: string; door: AuthorityDoor }
  others: AuthorityDoor[]
  agents: PrivateKey[]
}

/** Measures on a system that runs; makes owners of its own there. Takes about a minute. */
export async function measureNeighbour(
  system: System,
  { tell }: { tell: (line: string) => void },
): Promise<Neighbour> {
  const street = await settle(system)
  const seen: Record<Phase, BobSaw[]> = { idle: [], spread: [], held: [] }
  const flood: Record<Phase, Record<string, number>> = { idle: {}, spread: {}, held: {} }
  try {
    // Cold code and empty pools are nobody's flood.
    await phase(street, 'spread', {})
    for (let turn = 1; turn <= TURNS; turn++) {
      for (const name of PHASES) seen[name].push(await phase(street, name, flood[name]))
      tell(`neighbour: turn ${turn} of ${TURNS}`)
    }
  } finally {
    await Promise.all([street.bob, street.alice.door, ...street.others].map(door => door.close()))
  }
  const p99 = (name: Phase): number[] => seen[name].map(({ p99_ms }) => p99_ms)
  const over = (below: Phase): number[] => p99('held').map((ms, turn) => ms / p99(below)[turn]!)
  const told = PHASES.map(name => [
    name,
    {
      p50_ms: spreadOf(seen[name].map(({ p50_ms }) => p50_ms))!,
      p99_ms: spreadOf(p99(name))!,
      errors: seen[name].reduce((sum, { errors }) => sum + errors, 0),
      flood: flood[name],
    },
  ])
  return {
    calls_per_second: BOB_CALLS_PER_SECOND,
    flood_per_second: FLOOD_PER_SECOND,
    spread_over: SPREAD_OVER,
    phases: Object.fromEntries(told) as Neighbour['phases'],
    ratios: { overSpread: over('spread'), overIdle: over('idle') },
    errors: seen.held.map(({ errors }) => errors),
  }
}

async function settle(system: System): Promise<Street> {
  const { db } = system.database
  const doorOf = (name: string): Promise<AuthorityDoor> =>
    openAuthority(worldOfSeeded(system, name), { inFlight: IN_FLIGHT, connections: IN_FLIGHT }, 'notes')
  const agents = Array.from({ length: AGENTS }, () => importPrivateJwk(generatePrivateJwk()))
  const asked = async (knows: number): Promise<string> => {
    const name = await seed.seedOwner(db, { ask_me: true })
    for (const key of agents.slice(0, knows)) await seed.seedConnection(db, name, thumbprintHandle(key))
    return name
  }
  const seconds = (TURNS + 1) * PHASES.reduce((sum, name) => sum + SECONDS[name], 0)
  const bob = await openBob(system, { agent: agents[0]!, seconds, connections: IN_FLIGHT })
  const alice = await asked(AGENTS)
  const others: AuthorityDoor[] = []
  for (let n = 0; n < SPREAD_OVER; n++) others.push(await doorOf(await asked(AGENTS_OF_OTHERS)))
  return { system, bob, alice: { owner: alice, door: await doorOf(alice) }, others, agents }
}

/** One phase: bob's calls, and the flood that belongs to it; ends when all is answered. */
async function phase(street: Street, name: Phase, flood: Record<string, number>): Promise<BobSaw> {
  const { bob, alice, others } = street
  const release = name === 'held' ? await holdQueue(street.system, alice.owner) : undefined
  const doors = { idle: [], spread: others, held: [alice.door] }[name]
  const flooding = doors.length === 0 ? Promise.resolve() : floodOf(street, { name, doors, flood })
  try {
    return await bob.call(SECONDS[name])
  } finally {
    await release?.()
    await flooding
  }
}

/**
 * Agents who ask for one operation after the other, each different, at a tier that asks their owner; counts
 * how that ended.
 */
function floodOf(
  { agents }: Street,
  { name, doors, flood }: { name: Phase; doors: AuthorityDoor[]; flood: Record<string, number> },
): Promise<void> {
  const known = doors.length === 1 ? AGENTS : AGENTS_OF_OTHERS
  return paced(FLOOD_PER_SECOND, SECONDS[name], async n => {
    const key = agents[Math.floor(n / doors.length) % known]!
    const operation = { tool: 'notes_read', params: { of: randomUUID() } }
    const ending = await doors[n % doors.length]!.negotiate(key, operation).then(
      () => 'granted',
      (error: unknown) => {
        if (error instanceof Unexpected) return `${error.status} ${error.code}`
        throw error
      },
    )
    flood[ending] = (flood[ending] ?? 0) + 1
  })
}

/** Locks an owner's queue row, and does nothing more; answers how to let go. */
async function holdQueue({ database }: System, owner: string): Promise<() => Promise<void>> {
  const client = new Client({ connectionString: database.url })
  await client.connect()
  await client.query('BEGIN')
  await client.query('SELECT 1 FROM queues WHERE owner = $1 FOR UPDATE', [owner])
  return () => client.end()
}

const SAID: Record<Phase, string> = {
  idle: 'nobody flooded',
  spread: 'the flood over many owners',
  held: 'the flood on one, her row held',
}

/** What was measured, as lines of text. */
export function renderNeighbour({ phases, ratios, ...measured }: Neighbour): string {
  const lines = PHASES.map(name => {
    const { p50_ms, p99_ms, errors, flood } = phases[name]
    const ended = Object.entries(flood).map(([how, count]) => `${count} ${how}`)
    const times = [p50_ms.median, p99_ms.median, p99_ms.min, p99_ms.max].map(ms => ms.toFixed(1))
    return `${SAID[name].padEnd(32)}p50 ${times[0]} ms, p99 ${times[1]} (${times[2]} to ${times[3]}), ${errors} errors${ended.length === 0 ? '' : `; flood: ${ended.join(', ')}`}`
  })
  const median = (values: number[]): string => spreadOf(values)!.median.toFixed(2)
  return [
    `A neighbour's ${measured.calls_per_second} calls a second, beside ${measured.flood_per_second} negotiations a second at a tier that asks (${measured.spread_over} owners, or one)`,
    ...lines,
    `p99 beside the flood on one: ${median(ratios.overSpread)} of that beside the one on many, ${median(ratios.overIdle)} of that alone`,
  ].join('\n')
}

if (import.meta.main)
  await runByItself(async (directory, tell) => {
    const system = await startOwnSystem(directory)
    try {
      return renderNeighbour(await measureNeighbour(system, { tell }))
    } finally {
      await system.stop()
    }
  })
