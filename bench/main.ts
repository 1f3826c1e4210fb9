/**
 * Owns `make bench`: starts everything that is measured, runs the rounds, prints the report, and stops all it started, also when it fails.
 * docs/performance.md says what is measured and how to read it.
 */
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { parseArgs } from 'node:util'
import { readMachine, readPostgres } from './machine.ts'
import { makeReport, renderReport, type Report } from './report.ts'
import { runRounds } from './run.ts'
import { SCENARIOS } from './scenarios/index.ts'
import { startSystem } from './system.ts'

const USAGE = `usage: node bench/main.ts [options]
  --json PATH      write the report as JSON, too
  --rounds N       rounds of each scenario (5)
  --seconds N      seconds of a round, 1 to 45 (3)
  --warm-up N      seconds of each warm-up (2)
  --in-flight N    calls in flight (100)
  --connections N  HTTP/2 connections they share (4)
  --profile DIR    write CPU profiles of authority and sidecar there
DATABASE_URL measures on a Postgres of yours instead of an embedded one.`

interface Options {
  json: string | undefined
  profile: string | undefined
  rounds: number
  seconds: number
  warmUpSeconds: number
  inFlight: number
  connections: number
}

function readOptions(): Options | undefined {
  const text = { type: 'string' } as const
  const { values } = parseArgs({
    options: {
      json: text,
      profile: text,
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
    rounds: number('rounds', 5, 100),
    // A corpus is signed before its round, and a signature is good for a minute.
    seconds: number('seconds', 3, 45),
    warmUpSeconds: number('warm-up', 2, 30),
    inFlight: number('in-flight', 100, 1_000),
    connections: number('connections', 4, 100),
  }
}

/** Everything a run may take, waits included; beyond, it has hung. */
function secondsMax({ rounds, seconds, warmUpSeconds }: Options): number {
  return 120 + SCENARIOS.length * (warmUpSeconds + rounds * seconds) * 4
}

async function bench(options: Options, directory: string, aborted: Promise<never>): Promise<Report> {
  const startedAt = new Date()
  const machine = await readMachine()
  const system = await startSystem({
    directory,
    databaseUrl: process.env['DATABASE_URL'],
    profileDirectory: options.profile,
  })
  try {
    const tell = (line: string): void => void process.stderr.write(`${line}\n`)
    const { rounds, seconds, warmUpSeconds, inFlight, connections } = options
    const results = await Promise.race([
      runRounds(system, { ...options, scenarios: SCENARIOS, tell }),
      aborted,
    ])
    return makeReport({
      scenarios: SCENARIOS,
      rounds: results,
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
  } finally {
    await system.stop()
  }
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
    process.stdout.write(`\n${renderReport(report)}\n`)
    return 0
  } catch (error) {
    process.stderr.write(
      `\nThe bench failed: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`,
    )
    for (const name of ['authority', 'sidecar'])
      process.stderr.write(await lastWarnings(join(directory, `${name}.log`)))
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
