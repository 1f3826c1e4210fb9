/**
 * Owns `make bench-gate`: a short run of what the ratios are made of, held against the committed ones. A clear loss fails; a machine that is busy
 * with other work proves nothing, and says so. docs/performance.md says what counts as clear.
 */
import { spawn } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import type { FigureName, Spread } from './figures.ts'
import type { Report } from './report.ts'

/** What the gate holds, of a report. */
export type GateReport = Pick<Report, 'figures' | 'others_cpu_share'>

/** What is committed: the ratios of a run of the gate itself, so that like is compared with like. */
export type Baseline = Partial<Record<FigureName, Pick<Spread, 'median'>>>

export type Verdict = { kind: 'held' | 'lost' | 'busy'; lines: string[] }

const RATIOS = ['standing_over_verify', 'single_use_over_verify', 'negotiation_over_bare'] as const
/** Below this share of the committed median, even in its best cycle, a ratio is lost: what noise costs one cycle, it does not cost all. */
const CLEAR_LOSS = 0.75
/** Of the CPU; more than that taken by others, and no ratio says anything of ours. */
const OTHERS_MAX = 0.2

/** Judges a run. A ratio that the baseline or the run does not have is a fault of theirs and throws. */
export function judge({ figures, others_cpu_share: others }: GateReport, baseline: Baseline): Verdict {
  const judged = RATIOS.map(name => {
    const committed = baseline[name]?.median
    const seen = figures[name]?.spread
    if (committed === undefined || seen === undefined)
      throw new Error(`${name} is missing from the baseline or the run`)
    const lost = seen.max < CLEAR_LOSS * committed
    const cells = [seen.median, seen.min, seen.max, committed].map(value => value.toFixed(3))
    return {
      lost,
      line: `${name}: ${cells[0]} (${cells[1]} to ${cells[2]}), committed ${cells[3]}${lost ? ': LOST' : ''}`,
    }
  })
  const lines = judged.map(({ line }) => line)
  if (judged.every(({ lost }) => !lost)) return { kind: 'held', lines }
  const busy = others !== null && others.median > OTHERS_MAX
  return { kind: busy ? 'busy' : 'lost', lines }
}

const RUN =
  '--only verify,standing,single_use,negotiation,negotiation_bare --rounds 5 --seconds 2 --warm-up 8'
const BASELINE = join(import.meta.dirname, 'baseline.json')

async function main(): Promise<number> {
  const { values } = parseArgs({ options: { write: { type: 'boolean', default: false } } })
  const report = await run()
  if (values.write) {
    const medians = RATIOS.map(name => [name, { median: report.figures[name]!.spread.median }])
    await writeFile(BASELINE, `${JSON.stringify(Object.fromEntries(medians), null, 2)}\n`)
    return 0
  }
  const { kind, lines } = judge(report, JSON.parse(await readFile(BASELINE, 'utf8')) as Baseline)
  process.stdout.write(`${lines.join('\n')}\n${SAID[kind]}\n`)
  return kind === 'lost' ? 1 : 0
}

const SAID: Record<Verdict['kind'], string> = {
  held: 'No ratio is clearly lost.',
  lost: `A ratio is below ${CLEAR_LOSS} of the committed one in every cycle: find out why, or commit the new one with --write.`,
  busy: 'A ratio is low, but the machine was busy with other work: run it again on an idle one.',
}

async function run(): Promise<Report> {
  const directory = await mkdtemp(join(tmpdir(), 'usher-gate-'))
  try {
    const json = join(directory, 'report.json')
    const command = [join(import.meta.dirname, 'main.ts'), ...RUN.split(' '), '--json', json]
    const child = spawn(process.execPath, command, { stdio: ['ignore', 'ignore', 'inherit'] })
    const code = await new Promise(resolve => child.once('exit', resolve))
    if (code !== 0) throw new Error('the run failed')
    return JSON.parse(await readFile(json, 'utf8')) as Report
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

if (import.meta.main) process.exitCode = await main()
