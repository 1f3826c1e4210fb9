/**
 * Owns running one named test in a copy of the tree, and telling how it ended: passed, failed by what it
 * asserts, or not shown at all (it never ran, or it fell over something that no longer compiles or loads,
 * which shows nothing).
 */
import { spawn } from 'node:child_process'
import { readFile, rm } from 'node:fs/promises'
import { join, matchesGlob } from 'node:path'
import { z } from 'zod'
import { POSTGRES } from '../../vitest.config.ts'
import type { Fault } from './faults.ts'

export type Ending =
  | { kind: 'passed' }
  | { kind: 'failed'; said: string }
  | { kind: 'not-shown'; said: string }

type Named = Pick<Fault, 'file' | 'test'>

const REPORT = z.object({
  testResults: z.array(
    z.object({
      name: z.string(),
      message: z.string().optional(),
      assertionResults: z.array(
        z.object({
          ancestorTitles: z.array(z.string()),
          title: z.string(),
          status: z.string(),
          failureMessages: z.array(z.string()).nullish(),
        }),
      ),
    }),
  ),
})

type Report = z.infer<typeof REPORT>

/** Failing like this is no answer of the test's, but a patch that is no program. */
const NO_PROGRAM =
  /^(?:SyntaxError|ReferenceError)\b|is not a function|does not provide an export|Cannot find (?:module|package)|Failed to (?:load|resolve)/
/** Few tests must fail by never seeing what they wait for; those that pass see it in much less. */
const PATIENCE_WITH_A_FAULT_MS = 15_000

/**
 * How the named tests end in this directory, in their order. `databaseUrl`: a server for those that need one;
 * `hasFault`: they are to fail, so they wait less long for what is not to come.
 */
export async function runTests(
  directory: string,
  named: readonly Named[],
  {
    databaseUrl,
    secondsMax,
    hasFault,
  }: { databaseUrl: string | undefined; secondsMax: number; hasFault: boolean },
): Promise<Ending[]> {
  const reportFile = join(directory, 'faults-report.json')
  const files = [...new Set(named.map(({ file }) => file))]
  const pattern = named.map(({ test }) => `^${escaped(test)}$`).join('|')
  const args = ['run', ...files, '-t', pattern, '--reporter=json', `--outputFile=${reportFile}`]
  const usesDatabase =
    databaseUrl !== undefined && files.some(file => POSTGRES.some(glob => matchesGlob(file, glob)))
  const output = await execute(directory, args, {
    environment: {
      ...(usesDatabase && { DATABASE_URL: databaseUrl }),
      ...(hasFault && { TEST_PATIENCE_MS: String(PATIENCE_WITH_A_FAULT_MS) }),
    },
    secondsMax,
  })
  const text = await readFile(reportFile, 'utf8').catch(() => undefined)
  await rm(reportFile, { force: true })
  if (text === undefined) {
    const said = `vitest gave no report: ${output.trim().split('\n').at(-1) ?? ''}`
    return named.map(() => ({ kind: 'not-shown', said }))
  }
  const report = REPORT.parse(JSON.parse(text))
  return named.map(one => endingOf(report, one))
}

function endingOf(report: Report, { file, test }: Named): Ending {
  const module = report.testResults.find(({ name }) => name.endsWith(`/${file}`))
  const found = module?.assertionResults.find(
    ({ ancestorTitles, title }) => [...ancestorTitles, title].join(' > ') === test,
  )
  if (found?.status === 'passed') return { kind: 'passed' }
  if (found?.status !== 'failed') {
    const why = firstLine(module?.message)
    return { kind: 'not-shown', said: `the test did not run${why === '' ? '' : `: ${why}`}` }
  }
  const said = firstLine(found.failureMessages?.[0])
  return NO_PROGRAM.test(said) ? { kind: 'not-shown', said } : { kind: 'failed', said }
}

function firstLine(text: string | null | undefined): string {
  return (text ?? '').split('\n')[0]!.slice(0, 200)
}

/** As a pattern for `-t`, which vitest holds against the titles joined by ` > `. */
function escaped(test: string): string {
  return test.replace(/[\\^$.*+?()[\]{}|/]/g, String.raw`\$&`)
}

/**
 * Runs vitest as its own process group, so that everything that a broken test left behind ends with it.
 * Returns what it printed.
 */
async function execute(
  directory: string,
  args: string[],
  { environment, secondsMax }: { environment: Record<string, string>; secondsMax: number },
): Promise<string> {
  const vitest = join(directory, 'node_modules', '.bin', 'vitest')
  const child = spawn(vitest, args, {
    cwd: directory,
    env: { ...process.env, ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  })
  const endGroup = (): void => {
    try {
      process.kill(-child.pid!, 'SIGKILL')
    } catch {
      // Nothing of it is left.
    }
  }
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => (output = (output + chunk.toString()).slice(-4_000)))
  const timer = setTimeout(endGroup, secondsMax * 1_000)
  process.once('exit', endGroup)
  try {
    await new Promise<void>((resolve, reject) => {
      child.once('error', reject)
      child.once('close', () => resolve())
    })
  } finally {
    clearTimeout(timer)
    process.off('exit', endGroup)
    endGroup()
  }
  return output
}
