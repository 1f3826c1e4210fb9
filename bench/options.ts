/**
 * Owns the command line of the bench.
 */
import { parseArgs } from 'node:util'
import { scenarioNamed, SCENARIOS } from './scenarios/index.ts'
import type { Scenario } from './world.ts'

export const USAGE = `usage: node bench/main.ts [options]
  --json PATH      write the report as JSON, too
  --rounds N       rounds of each scenario (5)
  --seconds N      seconds of a round, 1 to 45 (10)
  --warm-up N      seconds of each warm-up (10)
  --only A,B       these scenarios alone: no ratios then, for work on one part
  --in-flight N    calls in flight (100)
  --connections N  HTTP/2 connections they share (4)
  --cross-check    make calls with h2load, too, as is done without --only
  --against DIR    measure another checkout of usher, too, round by round beside this one
  --profile DIR    write CPU profiles of authority and sidecar there
PEERS=1 measures beside ours what others take for a decision: Envoy, its jwt_authn, OpenFGA (OPENFGA_BIN).
SCALE=1 adds ten million grants and uses of an allowance, and her lists over a ledger of 1,000,000 rows, not 100,000.
DATABASE_URL measures on a Postgres of yours instead of an embedded one.`

export interface Options {
  json: string | undefined
  profile: string | undefined
  against: string | undefined
  scenarios: readonly Scenario[]
  crossCheck: boolean
  /** Of the ledger that her lists are timed over; undefined: they are not. */
  ledgerRows: number | undefined
  /** Whether one owner is flooded while another is measured. */
  neighbour: boolean
  /** Whether the bridge is measured, on its own stack. */
  bridge: boolean
  /** Whether allowances are measured, on their own system. */
  allowances: boolean
  /** Whether joint accounts are measured, on their own system. */
  joint: boolean
  /** Whether revokes are timed while sidecars hold leases, on a system of their own. */
  leases: boolean
  /** Whether other systems are measured, too. */
  peers: boolean
  /** Whether to fill ten million grants, and as many uses of an allowance. */
  scale: boolean
  /** As it was typed. */
  command: string
  rounds: number
  seconds: number
  warmUpSeconds: number
  inFlight: number
  connections: number
}

/** What the command line asks for; undefined if it asks for help. Throws if it makes no sense. */
export function readOptions(): Options | undefined {
  const text = { type: 'string' } as const
  const { values } = parseArgs({
    options: {
      json: text,
      profile: text,
      against: text,
      only: text,
      'cross-check': { type: 'boolean' },
      rounds: text,
      seconds: text,
      'warm-up': text,
      'in-flight': text,
      connections: text,
      help: { type: 'boolean' },
    },
  })
  if (values.help) return undefined
  const number = (name: Exclude<keyof typeof values, 'help'>, otherwise: number, most: number): number => {
    const value = Number(values[name] ?? otherwise)
    if (!Number.isInteger(value) || value < 1 || value > most)
      throw new Error(`Give --${name} as 1 to ${most}.`)
    return value
  }
  return {
    json: values.json,
    profile: values.profile,
    against: values.against,
    scenarios: values.only === undefined ? SCENARIOS : values.only.split(',').map(scenarioNamed),
    crossCheck: values.only === undefined || values['cross-check'] === true,
    neighbour: values.only === undefined,
    bridge: values.only === undefined,
    allowances: values.only === undefined,
    joint: values.only === undefined,
    leases: values.only === undefined,
    peers: process.env['PEERS'] === '1',
    scale: values.only === undefined && process.env['SCALE'] === '1',
    command: [
      ...(process.env['PEERS'] === '1' ? ['PEERS=1'] : []),
      ...(process.env['SCALE'] === '1' ? ['SCALE=1'] : []),
      'node bench/main.ts',
      ...process.argv.slice(2),
    ].join(' '),
    ledgerRows: values.only !== undefined ? undefined : process.env['SCALE'] === '1' ? 1_000_000 : 100_000,
    rounds: number('rounds', 5, 100),
    // A corpus is signed before its round, and a signature is good for a minute.
    seconds: number('seconds', 10, 45),
    warmUpSeconds: number('warm-up', 10, 30),
    inFlight: number('in-flight', 100, 1_000),
    connections: number('connections', 4, 100),
  }
}

/** For her lists, filling a million rows included. */
const LISTS_SECONDS_MAX = 300
/** For the flood, and its owners to be made. */
const NEIGHBOUR_SECONDS_MAX = 240
/** For a stack and a few starts of the bridge. */
const BRIDGE_SECONDS_MAX = 120
/** For a few turns, in each of which allowances are measured in three ways. */
const ALLOWANCES_SECONDS_MAX = 420
const JOINT_SECONDS_MAX = 300
/** For ten sidecars, some hundred revokes and a few that wait. */
const LEASES_SECONDS_MAX = 240
/** For five servers, each warmed up and asked in each cycle. */
const PEERS_COUNT = 5
/** For ten million grants, and as many uses of an allowance: filling, indexing and asking. */
const SCALE_SECONDS_MAX = 7_200

/** Everything a run may take, waits included; beyond, it has hung. */
export function secondsMax(options: Options): number {
  const { scenarios, rounds, seconds, warmUpSeconds, against, scale, peers } = options
  const lanes = scenarios.length * (against === undefined ? 1 : 2)
  return (
    120 +
    LISTS_SECONDS_MAX +
    NEIGHBOUR_SECONDS_MAX +
    BRIDGE_SECONDS_MAX +
    ALLOWANCES_SECONDS_MAX +
    JOINT_SECONDS_MAX +
    LEASES_SECONDS_MAX +
    (scale ? SCALE_SECONDS_MAX : 0) +
    (peers ? 120 + PEERS_COUNT * (warmUpSeconds + rounds * seconds) * 4 : 0) +
    lanes * (warmUpSeconds + rounds * seconds) * 4
  )
}
