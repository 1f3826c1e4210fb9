/**
 * Owns `make faults`: brings the faults of test/faults/*.yaml into copies of this tree, one at a time,
 * and demands that the test each one names is green without it and fails with it. A suite that lets a known
 * fault pass is no proof of its absence.
 */
import { availableParallelism } from 'node:os'
import { readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { startEmbeddedPostgres } from '../../src/dev/stack/embedded-postgres.ts'
import type { ExecutedTest } from '../support/contract-rows.ts'
import { EXECUTED_TESTS_FILE } from '../support/executed-tests-reporter.ts'
import { readFaults, type Fault } from './faults.ts'
import { runTests } from './one-test.ts'
import { copyTree, type Tree } from './tree.ts'

const USAGE = `usage: node test/faults/run.ts [options] [name...]
  name         run these faults only
  --list       list them
  --shard I/N  run the I-th of N parts
  --jobs N     faults at a time, each in a copy of its own (as many as cores)
  --tests-passed
               the tests have just been run in this tree: those recorded as passed are not run without faults
DATABASE_URL uses a Postgres of yours instead of an embedded one.`

/** A test that has not ended by then is stopped, and shows nothing. */
const SECONDS_PER_TEST = 180
const SECONDS_WITHOUT = 900

interface Options {
  faults: Fault[]
  list: boolean
  jobs: number
  /** Whether the record of the last run of tests is of this tree. */
  testsPassed: boolean
}

function readOptions(): Options | undefined {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      list: { type: 'boolean', default: false },
      shard: { type: 'string', default: '1/1' },
      jobs: { type: 'string' },
      'tests-passed': { type: 'boolean', default: false },
      help: { type: 'boolean' },
    },
  })
  if (values.help) return undefined
  const all = readFaults()
  const unknown = positionals.filter(name => !all.some(fault => fault.name === name))
  if (unknown.length > 0) throw new Error(`No fault is called ${unknown.join(', ')}; --list tells all.`)
  const [, part, parts] = /^(\d+)\/(\d+)$/.exec(values.shard)?.map(Number) ?? []
  if (part === undefined || parts === undefined || part < 1 || part > parts)
    throw new Error('Give --shard as I/N, such as 1/2.')
  const jobs = Number(values.jobs ?? availableParallelism())
  if (!Number.isInteger(jobs) || jobs < 1) throw new Error('Give --jobs as a number from 1.')
  const wanted = positionals.length === 0 ? all : all.filter(({ name }) => positionals.includes(name))
  return {
    faults: wanted.filter((_, at) => at % parts === part - 1),
    list: values.list,
    jobs,
    testsPassed: values['tests-passed'],
  }
}

/** Each fault with what is wrong about it; undefined if its test failed as it must. */
type Miss = string | undefined

/** Of these faults, those whose tests the last run of tests does not record as passed. */
function withoutPassedTests(faults: readonly Fault[]): Fault[] {
  const executed = JSON.parse(readFileSync(EXECUTED_TESTS_FILE, 'utf8')) as ExecutedTest[]
  const passed = new Set(
    executed.filter(test => test.passed).map(({ file, name }) => JSON.stringify([file, name])),
  )
  return faults.filter(({ file, test }) => !passed.has(JSON.stringify([file, test])))
}

/** Without any fault every test that will be asked for must be green: one run for all of them. */
async function missesWithout(
  tree: Tree,
  faults: readonly Fault[],
  databaseUrl: string,
): Promise<Map<string, Miss>> {
  if (faults.length === 0) return new Map()
  const endings = await runTests(tree.directory, faults, {
    databaseUrl,
    secondsMax: SECONDS_WITHOUT,
    hasFault: false,
  })
  return new Map(
    endings.map((ending, at) => {
      const without = `without the fault, its test ${ending.kind === 'failed' ? 'fails' : 'is not shown'}`
      return [faults[at]!.name, ending.kind === 'passed' ? undefined : `${without}: ${ending.said}`]
    }),
  )
}

/** What is wrong with one fault; `tell` hears what its test said when it failed. */
async function missWith(
  tree: Tree,
  fault: Fault,
  databaseUrl: string,
): Promise<{ miss: Miss; said: string }> {
  try {
    await tree.bringIn(fault)
  } catch (error) {
    return { miss: (error as Error).message, said: '' }
  }
  try {
    const [ending] = await runTests(tree.directory, [fault], {
      databaseUrl,
      secondsMax: SECONDS_PER_TEST,
      hasFault: true,
    })
    switch (ending!.kind) {
      case 'failed':
        return { miss: undefined, said: ending!.said }
      case 'passed':
        return { miss: 'its test stays green with the fault in place', said: '' }
      case 'not-shown':
        return { miss: `nothing is shown: ${ending!.said}`, said: '' }
    }
  } finally {
    await tree.restore()
  }
}

async function runFaults({ faults, jobs, testsPassed }: Options, databaseUrl: string): Promise<number> {
  const startedAt = performance.now()
  const trees = await Promise.all(Array.from({ length: Math.min(jobs, faults.length) }, copyTree))
  const tell = (line: string): void => void process.stdout.write(`${line}\n`)
  const missed: string[] = []
  try {
    const toShow = testsPassed ? withoutPassedTests(faults) : faults
    const without = await missesWithout(trees[0]!, toShow, databaseUrl)
    const green = faults.filter(({ name }) => without.get(name) === undefined).length
    const before = testsPassed ? ` (${faults.length - toShow.length} of them in the run before)` : ''
    tell(`without any fault: ${green} of ${faults.length} tests green${before}`)
    const queue = faults.map(fault => ({ fault, before: without.get(fault.name) }))
    const lane = async (tree: Tree): Promise<void> => {
      for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
        const { fault, before: missedBefore } = next
        const began = performance.now()
        const { miss, said } =
          missedBefore === undefined
            ? await missWith(tree, fault, databaseUrl)
            : { miss: missedBefore, said: '' }
        const took = `${((performance.now() - began) / 1_000).toFixed(1)} s`
        tell(
          miss === undefined ? `caught  ${fault.name} (${took}): ${said}` : `MISSED  ${fault.name}: ${miss}`,
        )
        if (miss !== undefined) missed.push(fault.name)
      }
    }
    await Promise.all(trees.map(lane))
  } finally {
    await Promise.all(trees.map(tree => tree.remove()))
  }
  const took = Math.round((performance.now() - startedAt) / 1_000)
  tell(
    missed.length === 0
      ? `All ${faults.length} faults are caught, in ${took} s.`
      : `${missed.length} of ${faults.length} faults are missed, in ${took} s: ${missed.join(', ')}`,
  )
  return missed.length === 0 ? 0 : 1
}

async function main(): Promise<number> {
  const options = readOptions()
  if (options === undefined) {
    process.stdout.write(`${USAGE}\n`)
    return 0
  }
  if (options.list) {
    for (const { name, fault } of options.faults) process.stdout.write(`${name}: ${fault}\n`)
    return 0
  }
  if (options.faults.length === 0) throw new Error('There is no fault in this part.')
  const given = process.env['DATABASE_URL']
  if (given !== undefined && given !== '') return runFaults(options, given)
  const server = await startEmbeddedPostgres({ maxConnections: 300, inMemory: true })
  try {
    return await runFaults(options, server.url)
  } finally {
    await server.stop()
  }
}

for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => {
    process.stderr.write(`stopped by ${signal}\n`)
    process.exit(1)
  })
process.exitCode = await main().catch((error: unknown) => {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`)
  return 1
})
