/**
 * Owns `make bench`: it starts everything that is measured, runs the rounds, prints the report, and stops
 * everything that it started, even if it fails. docs/performance.md says what is measured and how to read it.
 */
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { crossCheck } from './cross-check.ts'
import { readMachine, readPostgres } from './machine.ts'
import { readOptions, secondsMax, USAGE, type Options } from './options.ts'
import { makeReport, renderReport, type Report } from './report.ts'
import { measureAllowances, renderAllowances, type AllowanceCost } from './scenarios/allowances.ts'
import { measureAllowanceUses, renderAllowanceUses, type AllowanceUses } from './scenarios/allowance-uses.ts'
import { measureBridge, renderBridge, type BridgeCost } from './scenarios/bridge.ts'
import { measureJoint, renderJoint, type JointCost } from './scenarios/joint.ts'
import { measureLeaseRevokes, renderLeaseRevokes, type LeaseRevokes } from './scenarios/lease-revokes.ts'
import { laneName, runRounds, type Lane } from './run.ts'
import { measureNeighbour, renderNeighbour, type Neighbour } from './scenarios/neighbour.ts'
import { measurePeers, renderPeers, type Peers } from './scenarios/peers.ts'
import { measureOwnerLists, renderOwnerLists, type OwnerLists } from './scenarios/owner-lists.ts'
import { measureScale, renderScale, type Scale } from './scenarios/scale.ts'
import { startSystem, type System } from './system.ts'

type WholeReport = Report & {
  owner_lists?: OwnerLists
  scale?: Scale
  neighbour?: Neighbour
  allowances?: AllowanceCost
  allowance_uses?: AllowanceUses
  bridge?: BridgeCost
  joint?: JointCost
  leases?: LeaseRevokes
  peers?: Peers
}

async function bench(options: Options, directory: string, aborted: Promise<never>): Promise<WholeReport> {
  const startedAt = new Date()
  const machine = await readMachine()
  const stops: (() => Promise<void>)[] = []
  const start = async (name: string, tree: string | undefined): Promise<System> => {
    const own = join(directory, name)
    await mkdir(own, { mode: 0o755 })
    const databaseUrl = process.env['DATABASE_URL']
    const system = await startSystem({ directory: own, tree, databaseUrl, profileDirectory: options.profile })
    stops.push(() => system.stop())
    return system
  }
  try {
    const tell = (line: string): void => void process.stderr.write(`${line}\n`)
    const { scenarios, rounds, seconds, warmUpSeconds, inFlight, connections, against } = options
    const system = await start('this', undefined)
    const lanes: Lane[] = scenarios.map(scenario => ({ scenario, system, beside: undefined }))
    if (against !== undefined) {
      const other = await start('other', against)
      lanes.push(...scenarios.map(scenario => ({ scenario, system: other, beside: 'other' })))
    }
    const results = await Promise.race([runRounds(lanes, { ...options, tell }), aborted])
    const rates = Object.fromEntries(
      [...results].map(([name, rounds]) => [name, rounds.at(-1)!.calls_per_second]),
    )
    const checked = options.crossCheck
      ? await Promise.race([crossCheck(system, { inFlight, connections, rates, seconds, tell }), aborted])
      : undefined
    const readyMs = await starts(system)
    const neighbour = options.neighbour
      ? await Promise.race([measureNeighbour(system, { tell }), aborted])
      : undefined
    const { bridge, allowances, joint, leases } = await Promise.race([
      apart(directory, options, tell),
      aborted,
    ])
    const peers = options.peers
      ? await Promise.race([
          measurePeers(system, { directory, cycles: rounds, seconds, inFlight, connections, tell }),
          aborted,
        ])
      : undefined
    const scale = options.scale ? await Promise.race([measureScale(directory, { tell }), aborted]) : undefined
    const uses = options.scale
      ? await Promise.race([measureAllowanceUses(directory, { tell }), aborted])
      : undefined
    const report = makeReport({
      command: options.command,
      lanes: lanes.map(lane => ({ name: laneName(lane), scenario: lane.scenario })),
      rounds: results,
      readyMs,
      scale: scale?.ratios,
      allowances: allowances?.ratios,
      allowanceUses: uses?.ratios,
      bridge,
      joint,
      leases,
      peers,
      neighbour: neighbour && { ...neighbour.ratios, errors: neighbour.errors },
      crossCheck: checked,
      startedAt,
      droppedReports: await system.droppedReports(),
      settings: {
        rounds,
        seconds,
        warm_up_seconds: warmUpSeconds,
        in_flight: inFlight,
        connections,
        agents: system.world.agents.length,
        pool_max: system.world.poolMax,
      },
      machine,
      postgres: await readPostgres(system.database.pool),
    })
    const parts = {
      ...report,
      ...(neighbour && { neighbour }),
      ...(scale && { scale }),
      ...(uses && { allowance_uses: uses }),
      ...(bridge && { bridge }),
      ...(allowances && { allowances }),
      ...(joint && { joint }),
      ...(leases && { leases }),
      ...(peers && { peers }),
    }
    if (options.ledgerRows === undefined) return parts
    // It runs last, because its rows in the database must not slow anything else.
    const { ledgerRows } = options
    const lists = await Promise.race([measureOwnerLists(system, { ledgerRows, tell }), aborted])
    return { ...parts, owner_lists: lists }
  } finally {
    for (const stop of stops.reverse()) await stop()
  }
}

/** What is measured on systems of its own, one after the other. */
async function apart(
  directory: string,
  { bridge, allowances, joint, leases }: Options,
  tell: (line: string) => void,
): Promise<Pick<WholeReport, 'bridge' | 'allowances' | 'joint' | 'leases'>> {
  return {
    ...(bridge && { bridge: await measureBridge(directory, { tell }) }),
    ...(allowances && { allowances: await measureAllowances(directory, { tell }) }),
    ...(joint && { joint: await measureJoint(directory, { tell }) }),
    ...(leases && { leases: await measureLeaseRevokes(directory, { tell }) }),
  }
}

const STARTS = 5

async function starts(system: System): Promise<number[]> {
  const times: number[] = []
  while (times.length < STARTS) times.push(await system.timeToReady())
  return times
}

/** Rejects at a signal, and when the run takes longer than it can. */
function abortion(withinSeconds: number): Promise<never> {
  const aborted = new Promise<never>((_, reject) => {
    for (const signal of ['SIGINT', 'SIGTERM'] as const)
      process.once(signal, () => reject(new Error(`stopped by ${signal}`)))
    setTimeout(() => reject(new Error(`not done within ${withinSeconds} s`)), withinSeconds * 1_000).unref()
  })
  aborted.catch(() => undefined)
  return aborted
}

async function main(): Promise<number> {
  const options = readOptions()
  if (options === undefined) {
    process.stdout.write(`${USAGE}\n`)
    return 0
  }
  if (options.profile !== undefined) await mkdir(options.profile, { recursive: true })
  const directory = await mkdtemp(join(tmpdir(), 'usher-bench-'))
  try {
    const report = await bench(options, directory, abortion(secondsMax(options)))
    if (options.json !== undefined) {
      await mkdir(dirname(options.json), { recursive: true })
      await writeFile(options.json, `${JSON.stringify(report, null, 2)}\n`)
    }
    const { neighbour, scale, bridge, allowances, joint, leases, peers, owner_lists: lists } = report
    const { allowance_uses: uses } = report
    const pages = [
      renderReport(report),
      ...(neighbour === undefined ? [] : [renderNeighbour(neighbour)]),
      ...(bridge === undefined ? [] : [renderBridge(bridge)]),
      ...(allowances === undefined ? [] : [renderAllowances(allowances)]),
      ...(joint === undefined ? [] : [renderJoint(joint)]),
      ...(leases === undefined ? [] : [renderLeaseRevokes(leases)]),
      ...(peers === undefined ? [] : [renderPeers(peers)]),
      ...(scale === undefined ? [] : [renderScale(scale)]),
      ...(uses === undefined ? [] : [renderAllowanceUses(uses)]),
      ...(lists === undefined ? [] : [renderOwnerLists(lists)]),
    ]
    process.stdout.write(`\n${pages.join('\n\n')}\n`)
    return 0
  } catch (error) {
    process.stderr.write(
      `\nThe bench failed: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`,
    )
    for (const name of ['authority', 'sidecar'])
      process.stderr.write(await lastWarnings(join(directory, 'this', `${name}.log`)))
    return 1
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

/** The last lines of a log that tell of trouble. */
async function lastWarnings(file: string): Promise<string> {
  const lines = (await readFile(file, 'utf8').catch(() => '')).trimEnd().split('\n')
  const trouble = lines.filter(line => !/"level":"info"|UMA_DEV_LOOPBACK/.test(line)).slice(-5)
  return trouble.length === 0 ? '' : `${file}:\n${trouble.map(line => `  ${line.slice(0, 500)}\n`).join('')}`
}

process.exitCode = await main()
