/**
 * Owns the chart as Helm renders it, for the tests; test/chart/tools.sh prepares what they need besides Node.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { parse, parseAllDocuments } from 'yaml'
import { digestOf, markUsed, removeUnused } from '../support/made-once.ts'
import { ROOT } from '../support/repository.ts'
import type { Requirement } from '../support/requirement.ts'
import { overDefaults, refusalsOf } from './values-schema.ts'

export const CHART = join(ROOT, 'charts', 'usher')
const TOOLS = join(ROOT, '.cache', 'chart')
const OUTPUTS = join(ROOT, '.cache', 'chart-outputs')
const VALUES = join(import.meta.dirname, 'values')

export type Json = null | boolean | number | string | Json[] | { [member: string]: Json }
export type Values = { [name: string]: Json }

export interface Manifest {
  apiVersion: string
  kind: string
  metadata: {
    name: string
    namespace?: string
    labels?: Record<string, string>
    annotations?: Record<string, string>
  }
  spec: Record<string, never>
  data?: Record<string, string>
}

/** The path of a prepared tool, or what to do. */
export function tool(name: 'helm' | 'kubeconform' | 'promtool' | 'schemas'): Requirement<string> {
  const path = join(TOOLS, name)
  if (!existsSync(path)) return { missing: `${name}: run test/chart/tools.sh` }
  if (name === 'schemas' && !schemasAreNew())
    return { missing: 'schemas: older than test/chart/write-schemas.ts, run test/chart/tools.sh' }
  return { found: path }
}

/** Whether they were written by the script as it is now: an older one knew fewer kinds. */
function schemasAreNew(): boolean {
  const script = readFileSync(join(import.meta.dirname, 'write-schemas.ts'))
  const version = join(TOOLS, 'schemas.version')
  return (
    existsSync(version) &&
    readFileSync(version, 'utf8').includes(createHash('sha256').update(script).digest('hex'))
  )
}

/** All of them, or the first that is missing. */
export function tools<N extends Parameters<typeof tool>[0]>(...names: N[]): Requirement<Record<N, string>> {
  const found = {} as Record<N, string>
  for (const name of names) {
    const one = tool(name)
    if (!('found' in one)) return one
    found[name] = one.found
  }
  return { found }
}

/** The value sets of test/chart/values, by name. */
export const VALUE_SETS = readdirSync(VALUES).map(file => basename(file, '.yaml'))

export function valueSet(name: string): Values {
  return parse(readFileSync(join(VALUES, `${name}.yaml`), 'utf8')) as Values
}

/** Values with others laid over them; a list replaces, and so does an empty map. */
export function over(values: Values, changes: Values): Values {
  const out = structuredClone(values)
  for (const [name, change] of Object.entries(changes)) {
    const before = out[name]
    out[name] =
      isMap(before) && isMap(change) && Object.keys(change).length > 0 ? over(before, change) : change
  }
  return out
}

function isMap(value: Json | undefined): value is Values {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

interface HelmOutput {
  ok: boolean
  text: string
}

/**
 * What `helm` says of the chart with these values: its output, or why it refuses. The same chart, values and
 * command have the same output, so it is rendered once for all files of tests: every third was a repetition.
 */
export function helm(binary: string, values: Values, command: string[]): HelmOutput {
  const inputs = JSON.stringify([statSync(binary).mtimeMs, command, values])
  const output = join(outputs(), `${createHash('sha256').update(inputs).digest('hex')}.json`)
  if (existsSync(output)) return JSON.parse(readFileSync(output, 'utf8')) as HelmOutput
  const result = runHelm(binary, values, command)
  // Under another name first, because other workers read the folder.
  const unfinished = `${output}.${randomBytes(4).toString('hex')}`
  writeFileSync(unfinished, JSON.stringify(result))
  renameSync(unfinished, output)
  return result
}

function runHelm(binary: string, values: Values, command: string[]): HelmOutput {
  const directory = mkdtempSync(join(tmpdir(), 'usher-chart-'))
  try {
    const file = join(directory, 'values.yaml')
    writeFileSync(file, JSON.stringify(values))
    const { status, stdout, stderr } = spawnSync(binary, [...command, '-f', file], {
      encoding: 'utf8',
      // Uses nothing of the user's environment: no cluster, no plugins. It ends before garbage matters.
      env: { HOME: directory, PATH: process.env['PATH'], GOGC: 'off' },
    })
    return { ok: status === 0, text: status === 0 ? stdout : stderr }
  } finally {
    rmSync(directory, { recursive: true })
  }
}

let folder: string | undefined

/** Of the outputs of the chart as it is now. */
function outputs(): string {
  if (folder !== undefined) return folder
  folder = join(OUTPUTS, digestOf(['charts/usher']))
  mkdirSync(folder, { recursive: true })
  markUsed(folder)
  removeUnused(OUTPUTS)
  return folder
}

/**
 * As the tests install it: release `usher` in the namespace `usher`. Two thirds of Helm's time went into
 * reading the schema, which is read once here.
 */
export function render(binary: string, values: Values, ...more: string[]): string {
  const refusals = refusalsOf(overDefaults(values))
  if (refusals !== '') throw new Error(refusals)
  const command = ['template', 'usher', CHART, '--namespace', 'usher', '--skip-schema-validation', ...more]
  const { ok, text } = helm(binary, values, command)
  if (!ok) throw new Error(text)
  return text
}

/**
 * What Helm prints after the installation. `helm template` leaves NOTES.txt out, so that of a copy of the
 * chart is the text of a ConfigMap.
 */
export function notesOf(binary: string, values: Values): string {
  const directory = mkdtempSync(join(tmpdir(), 'usher-notes-'))
  try {
    const chart = join(directory, 'usher')
    cpSync(CHART, chart, { recursive: true })
    renameSync(join(chart, 'templates', 'NOTES.txt'), join(chart, 'files', 'notes.tpl'))
    const notes = '{{ tpl (.Files.Get "files/notes.tpl") . | toJson }}'
    writeFileSync(
      join(chart, 'templates', 'notes.yaml'),
      `apiVersion: v1\nkind: ConfigMap\nmetadata: { name: notes }\ndata:\n  notes: ${notes}\n`,
    )
    const command = ['template', 'usher', chart, '--namespace', 'usher', '--skip-schema-validation']
    const { ok, text } = runHelm(binary, values, [...command, '--show-only', 'templates/notes.yaml'])
    if (!ok) throw new Error(text)
    return named(manifests(text), 'ConfigMap', 'notes').data!['notes']!
  } finally {
    rmSync(directory, { recursive: true })
  }
}

/** By what was parsed: a chart of all roles takes ten times as long to parse as to copy. */
const parsed = new Map<string, Manifest[]>()

/** YAML as Kubernetes reads it: 0440 is octal. */
export function manifests(text: string): Manifest[] {
  let found = parsed.get(text)
  if (found === undefined) {
    found = parseAllDocuments(text, { version: '1.1' })
      .map(document => document.toJS() as Manifest | null)
      .filter(one => one !== null)
    parsed.set(text, found)
  }
  return structuredClone(found)
}

export function rendered(binary: string, values: Values): Manifest[] {
  return manifests(render(binary, values))
}

export function named(all: Manifest[], kind: string, name: string): Manifest {
  const found = all.find(one => one.kind === kind && one.metadata.name === name)
  if (found === undefined)
    throw new Error(
      `no ${kind} ${name} among ${all.map(one => `${one.kind} ${one.metadata.name}`).join(', ')}`,
    )
  return found
}

/** Runs a checker; returns its output if it finds faults. */
export function complaints(command: string, args: string[], input?: string): string {
  try {
    execFileSync(command, args, { encoding: 'utf8', stdio: 'pipe', ...(input !== undefined && { input }) })
    return ''
  } catch (error) {
    const { stdout, stderr } = error as { stdout: string; stderr: string }
    return `${stdout}${stderr}`
  }
}
