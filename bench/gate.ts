/**
 * Owns `make bench-gate`: a short run that measures the ratios, and compares them with the committed ones if
 * they were made on this machine, or, with `--against`, with another checkout here and now. A clear loss
 * fails. A busy or unknown machine proves nothing, and the gate says so. docs/performance.md says what counts
 * as clear.
 */
import { spawn } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { spreadOf, type FigureName, type Spread } from './figures.ts'
import type { Machine } from './machine.ts'
import type { Report } from './report.ts'

/** What a ratio depends on besides the code: `verify` runs on one core, and a call uses several. */
export type KnownMachine = Pick<Machine, 'cpu' | 'cores' | 'node'>

type Ratios = Partial<Record<FigureName, Pick<Spread, 'median'>>>

/** What the gate holds, of one report or of several of the same checkout. */
export interface GateReport {
  figures: Partial<Record<FigureName, { spread: Spread }>>
  others_cpu_share: Spread | null
  machine: KnownMachine
}

/**
 * The committed values: the ratios of a run of the gate itself, so that like is compared with like, and their
 * machine.
 */
export interface Baseline {
  machine: KnownMachine
  ratios: Ratios
}

export interface Verdict {
  kind: 'held' | 'lost' | 'busy' | 'unknown machine'
  lines: string[]
}

const RATIOS = ['standing_over_verify', 'single_use_over_verify', 'negotiation_over_bare'] as const
/**
 * Below this share of the other median, even in its best cycle, a ratio is lost: what noise costs one cycle,
 * it does not cost all.
 */
const CLEAR_LOSS = 0.75
/** The share of the CPU; if other work takes more than this, no ratio says anything about us. */
const OTHERS_MAX = 0.2

/**
 * Judges a run by the baseline of this machine. By that of another machine nothing can be lost or held: what
 * `verify` gets of one core, and a call of two, is the machine's own. A ratio that either does not have is a
 * fault of theirs and throws.
 */
export function judge(run: GateReport, { machine, ratios }: Baseline): Verdict {
  const others = othersOf(run)
  if (isMachine(run.machine, machine)) return compare(run.figures, ratios, { whose: 'committed', others })
  const lines = [
    `committed on ${nameOf(machine)}; this is ${nameOf(run.machine)}`,
    ...compare(run.figures, ratios, { whose: 'committed there', others }).lines.map(line =>
      line.replace(LOST, ''),
    ),
  ]
  return { kind: 'unknown machine', lines }
}

/**
 * Judges a run by that of another checkout, made in turns with it on the same machine. Throws as `judge`
 * does.
 */
export function judgeBeside(run: GateReport, other: GateReport): Verdict {
  const ratios = Object.fromEntries(
    Object.entries(other.figures).map(([name, { spread }]) => [name, spread]),
  ) as Ratios
  const { max: others } = spreadOf([othersOf(run), othersOf(other)])!
  return compare(run.figures, ratios, { whose: 'the other', others })
}

const othersOf = (run: GateReport): number => run.others_cpu_share?.median ?? 0

const LOST = ': LOST'

function compare(
  figures: GateReport['figures'],
  ratios: Ratios,
  { whose, others }: { whose: string; others: number },
): Verdict {
  const judged = RATIOS.map(name => {
    const wanted = ratios[name]?.median
    const seen = figures[name]?.spread
    if (wanted === undefined || seen === undefined)
      throw new Error(`${name} is missing from the baseline or the run`)
    const lost = seen.max < CLEAR_LOSS * wanted
    const cells = [seen.median, seen.min, seen.max, wanted].map(value => value.toFixed(3))
    return {
      lost,
      line: `${name}: ${cells[0]} (${cells[1]} to ${cells[2]}), ${whose} ${cells[3]}${lost ? LOST : ''}`,
    }
  })
  const lines = judged.map(({ line }) => line)
  if (judged.every(({ lost }) => !lost)) return { kind: 'held', lines }
  return { kind: others > OTHERS_MAX ? 'busy' : 'lost', lines }
}

function isMachine(one: KnownMachine, other: KnownMachine): boolean {
  return one.cpu === other.cpu && one.cores === other.cores && one.node === other.node
}

function nameOf({ cpu, cores, node }: KnownMachine): string {
  return `${cpu}, ${cores} cores, Node ${node}`
}

/** Several runs of one checkout as one: medians of medians, and the least and most of all. */
export function merged(runs: readonly GateReport[]): GateReport {
  const over = (read: (run: GateReport) => Spread | null | undefined): Spread | null => {
    const spreads = runs.map(run => read(run) ?? undefined)
    const medians = spreadOf(spreads.map(spread => spread?.median))
    const ends = spreadOf(spreads.flatMap(spread => [spread?.min, spread?.max]))
    return medians && ends && { ...ends, median: medians.median }
  }
  const figures = RATIOS.flatMap(name => {
    const spread = over(run => run.figures[name]?.spread)
    return spread === null ? [] : [[name, { spread }] as const]
  })
  return {
    figures: Object.fromEntries(figures),
    others_cpu_share: over(run => run.others_cpu_share),
    machine: runs[0]!.machine,
  }
}

const SCENARIOS = '--only verify,standing,single_use,negotiation,negotiation_bare'
const ALONE = `${SCENARIOS} --rounds 5 --seconds 2 --warm-up 8`
/**
 * Each turn starts everything anew, for a checkout is measured by its own bench, which knows its own tables.
 */
const TURNS = 3
const A_TURN = `${SCENARIOS} --rounds 2 --seconds 2 --warm-up 8`
const ROOT = join(import.meta.dirname, '..')
const BASELINE = join(import.meta.dirname, 'baseline.json')

const USAGE = `usage: node bench/gate.ts [--write | --against DIR]
  --write        commit the ratios of this run, with this machine, to bench/baseline.json
  --against DIR  judge by another checkout of usher with its node_modules, in turns with this one, whatever the machine
Exit code 1: a ratio is clearly lost. 0: none is, or nothing could be judged, and why.`

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: { write: { type: 'boolean' }, against: { type: 'string' }, help: { type: 'boolean' } },
  })
  if (values.help === true || (values.write === true && values.against !== undefined)) {
    process.stdout.write(`${USAGE}\n`)
    return values.help === true ? 0 : 2
  }
  if (values.write === true) {
    await writeBaseline(await run(ROOT, ALONE))
    return 0
  }
  const { kind, lines } =
    values.against === undefined
      ? judge(await run(ROOT, ALONE), JSON.parse(await readFile(BASELINE, 'utf8')) as Baseline)
      : await inTurns(resolve(values.against))
  process.stdout.write(`${lines.join('\n')}\n${SAID[kind]}\n`)
  return kind === 'lost' ? 1 : 0
}

const SAID: Record<Verdict['kind'], string> = {
  held: 'No ratio is clearly lost.',
  lost: `A ratio is below ${CLEAR_LOSS} of the other one in every cycle: find out why, or commit the new one with --write.`,
  busy: 'A ratio is low, but the machine was busy with other work: run it again on an idle one.',
  'unknown machine':
    'Unknown machine: nothing was judged. Give a checkout to compare with (--against DIR), or commit what is seen here (--write).',
}

async function writeBaseline({ figures, machine: { cpu, cores, node } }: Report): Promise<void> {
  const ratios = Object.fromEntries(RATIOS.map(name => [name, { median: figures[name]!.spread.median }]))
  await writeFile(BASELINE, `${JSON.stringify({ machine: { cpu, cores, node }, ratios }, null, 2)}\n`)
}

/**
 * This checkout and the other, then the other way round, so that a machine that grows slower is unjust to
 * neither.
 */
async function inTurns(other: string): Promise<Verdict> {
  const runs = new Map<string, GateReport[]>([
    [ROOT, []],
    [other, []],
  ])
  for (let turn = 0; turn < TURNS; turn++) {
    const order = turn % 2 === 0 ? [ROOT, other] : [other, ROOT]
    for (const tree of order) runs.get(tree)!.push(await run(tree, A_TURN))
  }
  return judgeBeside(merged(runs.get(ROOT)!), merged(runs.get(other)!))
}

/** Has a checkout measure itself, by its own bench. */
async function run(tree: string, settings: string): Promise<Report> {
  const directory = await mkdtemp(join(tmpdir(), 'usher-gate-'))
  try {
    const json = join(directory, 'report.json')
    const command = [join(tree, 'bench', 'main.ts'), ...settings.split(' '), '--json', json]
    const child = spawn(process.execPath, command, { cwd: tree, stdio: ['ignore', 'ignore', 'inherit'] })
    const code = await new Promise(settled => child.once('exit', settled))
    if (code !== 0) throw new Error(`the run of ${tree} failed`)
    return JSON.parse(await readFile(json, 'utf8')) as Report
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

if (import.meta.main) process.exitCode = await main()
