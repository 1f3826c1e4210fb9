/**
 * Owns the figures in docs/performance.md: made from the JSON of a run, between two marks and with their
 * digest, so that no figure is ever typed. Run as `make bench-docs` after a run that wrote
 * bench/results.json, which stays on the machine that measured.
 */
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { meets, type Figure } from './figures.ts'
import { peerRatio, spreadOf, type PeerName } from './figures.ts'
import type { Report, ScenarioReport } from './report.ts'
import { PEER_TITLES, type PeersRun } from './scenarios/peers.ts'

const BEGIN = '<!-- figures: written by `make bench-docs` -->'
const END = '<!-- end of the figures -->'
const PEERS_BEGIN = '<!-- peers: written by `make bench-docs` -->'
const PEERS_END = '<!-- end of the peers -->'
const ROOT = join(import.meta.dirname, '..')
const RESULTS = join(ROOT, 'bench', 'results.json')
/** What `node bench/scenarios/peers.ts --json` wrote. */
const PEERS = join(ROOT, 'bench', 'peers.json')
export const PAGE = join(ROOT, 'docs', 'performance.md')

/**
 * The page with the figures of a report in place of those that it had. Throws for a page without the marks.
 */
export function withFigures(page: string, report: Report): string {
  return withText(page, [BEGIN, END], () => figuresPage(report))
}

/** The page with what others reached, as it was seen in one run. */
export function withPeers(page: string, run: PeersRun): string {
  return withText(page, [PEERS_BEGIN, PEERS_END], () => peersPage(run))
}

function withText(page: string, [begin, end]: [string, string], text: () => string): string {
  const from = page.indexOf(begin)
  const to = page.indexOf(end)
  if (from < 0 || to < from) throw new Error('the page has no place for figures')
  const figures = text()
  return `${page.slice(0, from + begin.length)}\n\n${figures}\n\n${digestLine(figures)}\n\n${page.slice(to)}`
}

const digestLine = (figures: string): string =>
  `<!-- digest: ${createHash('sha256').update(figures).digest('hex').slice(0, 16)} -->`

/** The headings of those figures of the page that nobody wrote but `make bench-docs`, and of the others. */
export function writtenFigures(page: string): { begin: string; isWritten: boolean }[] {
  return [
    [BEGIN, END],
    [PEERS_BEGIN, PEERS_END],
  ].map(([begin, end]) => {
    const text = page.slice(page.indexOf(begin!) + begin!.length, page.indexOf(end!)).trim()
    const at = text.lastIndexOf('<!-- digest: ')
    return { begin: begin!, isWritten: text.slice(at) === digestLine(text.slice(0, at).trimEnd()) }
  })
}

function peersPage(run: PeersRun): string {
  const { machine, calls_per_second: rates, tools } = run
  const cell = (values: number[] | undefined): string[] => {
    const spread = spreadOf(values ?? [])
    return spread === null
      ? ['-', '-']
      : [short(spread.median), `${short(spread.min)} to ${short(spread.max)}`]
  }
  const named = Object.entries(tools).map(([name, version]) =>
    version.startsWith(name) ? version : `${name} ${version}`,
  )
  const over = (other: PeerName): string[] => cell(peerRatio(run, 'usher', other))
  return [
    ...wrapped(
      `Taken on ${run.started_at.slice(0, 10)} by \`${run.command}\`: cycles of rounds of ${run.seconds} s, ${run.in_flight} calls in flight. Machine: ${machine.cpu}, ${machine.cores} cores, Node ${machine.node}; load average before it began: ${run.load_average.toFixed(1)}.`,
    ),
    ...wrapped(`With ${named.join('; ')}.`),
    '',
    table(
      ['Who decides', 'Calls a second', 'Least to most'],
      Object.entries(PEER_TITLES)
        .filter(([name]) => rates[name as PeerName] !== undefined)
        .map(([name, title]) => [title, ...cell(rates[name as PeerName])]),
    ),
    '',
    table(
      ['In the same cycle', 'Median', 'Least to most', 'Goal'],
      [
        ['usher over `jwt_authn`', ...over('jwt_authn'), 'at least 0.3'],
        ['usher over OpenFGA', ...over('openfga'), 'at least 0.45'],
      ],
    ),
  ].join('\n')
}

function figuresPage(report: Report): string {
  const scenarios = Object.values(report.scenarios)
  const { machine, postgres, settings, others_cpu_share: others } = report
  const busy =
    others === null
      ? ''
      : ` Other work took ${percent(others.median)} of the CPU (at most ${percent(others.max)}).`
  return [
    ...wrapped(
      `Taken on ${report.started_at.slice(0, 10)} by \`${report.command}\`: ${settings['rounds']} cycles of rounds of ${settings['seconds']} s, ${settings['in_flight']} calls in flight, ${report.took_seconds} s in all.`,
    ),
    ...wrapped(
      `Machine: ${machine.cpu}, ${machine.cores} cores, ${machine.memory_mib} MiB, ${machine.file_system}, Node ${machine.node}; Postgres ${postgres.version} with fsync ${postgres.fsync}, synchronous_commit ${postgres.synchronous_commit}, full_page_writes ${postgres.full_page_writes}.${busy}`,
    ),
    '',
    table(['Figure', 'Seen', 'Least to most', 'Goal', 'Met'], Object.entries(report.figures).map(figureRow)),
    '',
    table(['Scenario', 'Calls a second', 'p50 ms', 'p99 ms'], scenarios.map(scenarioRow)),
    '',
    'CPU time of each party, in µs a call:',
    '',
    table(['Scenario', ...PARTIES], scenarios.map(cpuRow)),
    ...crossCheckLine(report),
  ].join('\n')
}

function crossCheckLine({ cross_check: checked, scenarios }: Report): string[] {
  if (checked === null) return []
  const rates = Object.entries(checked.calls_per_second).map(
    ([name, rate]) =>
      `${scenarios[name]!.title} ${Math.round(rate)} (ours ${Math.round(scenarios[name]!.rounds.at(-1)!.calls_per_second)})`,
  )
  return [
    '',
    ...wrapped(
      `The same checks sent by ${checked.tool}, calls a second, beside our last round: ${rates.join(', ')}.`,
    ),
  ]
}

const PARTIES = ['load', 'bare', 'sidecar', 'authority', 'postgres']

function figureRow([name, figure]: [string, Figure]): string[] {
  const { value, spread, goal } = figure
  const asked = goal === null ? 'reported' : `at ${goal.kind} ${goal.bound}`
  const met = goal === null ? '' : meets(figure) ? 'yes' : 'no'
  return [`\`${name}\``, short(value), `${short(spread.min)} to ${short(spread.max)}`, asked, met]
}

function scenarioRow({ title, calls_per_second, p50_ms, p99_ms }: ScenarioReport): string[] {
  return [
    title,
    String(Math.round(calls_per_second.median)),
    p50_ms.median.toFixed(1),
    p99_ms.median.toFixed(1),
  ]
}

function cpuRow({ title, cpu_us_per_call }: ScenarioReport): string[] {
  const cpu = PARTIES.map(party => {
    const micros = cpu_us_per_call?.[party]
    return micros === undefined || micros < 1 ? '-' : String(Math.round(micros))
  })
  return [title, ...cpu]
}

const COLUMNS_MAX = 120

/** The sentences as lines of the width of every page. */
function wrapped(text: string): string[] {
  const lines: string[] = []
  for (const word of text.split(' ')) {
    const last = lines.at(-1)
    if (last === undefined || last.length + 1 + word.length > COLUMNS_MAX) lines.push(word)
    else lines[lines.length - 1] = `${last} ${word}`
  }
  return lines
}

function table(head: string[], rows: string[][]): string {
  const all = [head, ...rows]
  const widths = head.map((_, column) => Math.max(...all.map(row => row[column]!.length)))
  const line = (row: string[]): string => `| ${row.map((cell, n) => cell.padEnd(widths[n]!)).join(' | ')} |`
  return [line(head), line(widths.map(width => '-'.repeat(width))), ...rows.map(line)].join('\n')
}

function short(value: number): string {
  return Number(value.toPrecision(3)).toString()
}

function percent(share: number): string {
  return `${Math.round(share * 100)} %`
}

if (import.meta.main) {
  let page = await readFile(PAGE, 'utf8')
  if (existsSync(RESULTS)) page = withFigures(page, JSON.parse(await readFile(RESULTS, 'utf8')) as Report)
  if (existsSync(PEERS)) page = withPeers(page, JSON.parse(await readFile(PEERS, 'utf8')) as PeersRun)
  await writeFile(PAGE, page)
}
