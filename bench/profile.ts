/**
 * Owns a profile of one scenario: where the threads of sidecar and authority were, which statements Postgres
 * ran and what they waited for, and the CPU time of each party, all over the same round. The programs run
 * from the sources, so that the profile shows their names. docs/performance.md says how to read it.
 */
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { threadTimes, type CpuProfile, type ThreadTimes } from './cpu-profile.ts'
import { runRounds, type Round } from './run.ts'
import { scenarioNamed } from './scenarios/index.ts'
import { sampleStatements, type Sampling, type StatementProfile } from './statement-samples.ts'
import { startSystem } from './system.ts'

const USAGE = `usage: node bench/profile.ts [options]
  --scenario NAME  what is profiled (single_use)
  --seconds N      seconds of the round that is profiled (15)
  --warm-up N      seconds of the warm-up before it; as long a round is thrown away after it (10)
DATABASE_URL profiles on a Postgres of yours instead of an embedded one.`

const IN_FLIGHT = 100
const CONNECTIONS = 4
/** Less than so much of a call is not listed. */
const LISTED_US_MIN = 2
const FUNCTIONS_MAX = 15
/** The bench's own: it inserts the grants that calls spend, and counts the calls in the ledger. */
const OF_BENCH = ['json_to_recordset($1) AS r(owner text, rpt text', "AND kind = 'touched'"]

interface Profiled {
  round: Round
  sidecar: ThreadTimes
  authority: ThreadTimes
  statements: StatementProfile
  /** How long was sampled. */
  sampledMs: number
}

interface Options {
  scenario: string
  seconds: number
  warmUpSeconds: number
}

async function profile({ scenario, seconds, warmUpSeconds }: Options): Promise<Profiled> {
  const directory = await mkdtemp(join(tmpdir(), 'usher-profile-'))
  const profileDirectory = join(directory, 'profiles')
  const databaseUrl = process.env['DATABASE_URL']
  try {
    const system = await startSystem({ directory, tree: undefined, databaseUrl, profileDirectory })
    const window = { from: 0, to: 0 }
    let sampling: Promise<Sampling> | undefined
    let statements: StatementProfile
    let rounds: Round[]
    try {
      const tell = (line: string): void => {
        process.stderr.write(`${line}\n`)
        // The first round is thrown away: its end is the beginning of what is profiled.
        if (line.startsWith('round 1/')) {
          window.from = monotonicUs()
          sampling = sampleStatements(system.world.databaseUrl, isOfBench)
        }
        if (line.startsWith('round 2/')) window.to = monotonicUs()
      }
      const lane = { scenario: scenarioNamed(scenario), system, beside: undefined }
      const settings = {
        inFlight: IN_FLIGHT,
        connections: CONNECTIONS,
        warmUpSeconds,
        seconds,
        rounds: 2,
        tell,
      }
      rounds = (await runRounds([lane], settings)).get(scenario)!
      statements = await (await sampling!).stop()
    } finally {
      await system.stop()
    }
    const timesOf = async (pid: number | undefined): Promise<ThreadTimes> =>
      threadTimes(await profileOf(profileDirectory, pid), window.from, window.to)
    return {
      round: rounds[1]!,
      sidecar: await timesOf(system.pids.sidecar?.[0]),
      authority: await timesOf(system.pids.authority?.[0]),
      statements,
      sampledMs: (window.to - window.from) / 1_000,
    }
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

function isOfBench(query: string): boolean {
  return OF_BENCH.some(part => query.includes(part))
}

/** By the clock of the profiles. */
function monotonicUs(): number {
  return Number(process.hrtime.bigint() / 1_000n)
}

/** Of the main thread of a process that has ended: its file is named for the process and the thread. */
async function profileOf(directory: string, pid: number | undefined): Promise<CpuProfile> {
  const files = await readdir(directory)
  const file = files.find(name => name.includes(`.${pid}.0.`) && name.endsWith('.cpuprofile'))
  if (file === undefined)
    throw new Error(`Process ${pid} wrote no profile into ${directory}: ${files.join(', ') || 'no file'}.`)
  return JSON.parse(await readFile(join(directory, file), 'utf8')) as CpuProfile
}

function render({ round, sidecar, authority, statements, sampledMs }: Profiled): string {
  const { calls } = round
  const cpu = Object.entries(round.cpu_us_per_call ?? {}).map(([party, us]) => `${party} ${us.toFixed(0)}`)
  const others = round.others_cpu_share
  const perCall = (us: number): string => (us / calls).toFixed(1)
  const listed = (times: readonly [string, number][]): string[] =>
    times
      .filter(([, us]) => us / calls >= LISTED_US_MIN)
      .map(([name, us]) => `  ${perCall(us).padStart(7)}  ${name}`)
  const thread = (name: string, times: ThreadTimes): string[] => [
    `The thread of the ${name}: ${perCall(times.busy)} µs a call (idle ${perCall(times.idle)}); by part:`,
    ...listed(times.parts),
    ` by the function that it was in:`,
    ...listed(times.functions.slice(0, FUNCTIONS_MAX)),
  ]
  const ofCall = (samples: number): string =>
    ((samples / statements.looks) * sampledMs * (1_000 / calls)).toFixed(1).padStart(7)
  return [
    `${calls} calls in ${round.seconds.toFixed(1)} s: ${round.calls_per_second.toFixed(0)} a second, p50 ${round.p50_ms.toFixed(1)} ms, p99 ${round.p99_ms.toFixed(1)} ms`,
    `CPU, µs a call: ${cpu.join(', ') || 'unknown'}; others took ${others === undefined ? 'an unknown share' : `${(others * 100).toFixed(0)} %`} of it`,
    ...thread('sidecar', sidecar),
    ...thread('authority', authority),
    `Postgres: ${(statements.commits / calls).toFixed(3)} commits a call; µs of a backend a call, by ${statements.looks} looks:`,
    ...statements.seen
      .filter(({ samples }) => samples * 200 >= statements.looks)
      .map(({ statement, wait, samples }) => `  ${ofCall(samples)}  ${wait}: ${statement}`),
  ].join('\n')
}

async function main(): Promise<void> {
  const text = { type: 'string' } as const
  const { values } = parseArgs({
    options: { scenario: text, seconds: text, 'warm-up': text, help: { type: 'boolean' } },
  })
  if (values.help) return void process.stdout.write(`${USAGE}\n`)
  const number = (name: 'seconds' | 'warm-up', otherwise: number): number => {
    const value = Number(values[name] ?? otherwise)
    // A corpus is signed before its round, and a signature is good for a minute.
    if (!Number.isInteger(value) || value < 1 || value > 45) throw new Error(`Give --${name} as 1 to 45.`)
    return value
  }
  const options = {
    scenario: scenarioNamed(values.scenario ?? 'single_use').name,
    seconds: number('seconds', 15),
    warmUpSeconds: number('warm-up', 10),
  }
  process.stdout.write(`${render(await profile(options))}\n`)
}

await main()
