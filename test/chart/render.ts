/**
 * Owns the chart as Helm renders it, for the tests; test/chart/tools.sh prepares what they need besides Node.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { parse, parseAllDocuments } from 'yaml'
import { ROOT } from '../support/repository.ts'
import type { Requirement } from '../support/requirement.ts'

export const CHART = join(ROOT, 'charts', 'usher')
const TOOLS = join(ROOT, '.cache', 'chart')
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

/** What `helm` says of the chart with these values: its output, or why it refuses. */
export function helm(helm: string, values: Values, command: string[]): { ok: boolean; text: string } {
  const directory = mkdtempSync(join(tmpdir(), 'usher-chart-'))
  try {
    const file = join(directory, 'values.yaml')
    writeFileSync(file, JSON.stringify(values))
    const { status, stdout, stderr } = spawnSync(helm, [...command, '-f', file], {
      encoding: 'utf8',
      // Uses nothing of the user's environment: no cluster, no plugins.
      env: { HOME: directory, PATH: process.env['PATH'] },
    })
    return { ok: status === 0, text: status === 0 ? stdout : stderr }
  } finally {
    rmSync(directory, { recursive: true })
  }
}

/** As the tests install it: release `usher` in the namespace `usher`. */
export function render(binary: string, values: Values, ...more: string[]): string {
  const { ok, text } = helm(binary, values, ['template', 'usher', CHART, '--namespace', 'usher', ...more])
  if (!ok) throw new Error(text)
  return text
}

/** YAML as Kubernetes reads it: 0440 is octal. */
export function manifests(text: string): Manifest[] {
  return parseAllDocuments(text, { version: '1.1' })
    .map(document => document.toJS() as Manifest | null)
    .filter(one => one !== null)
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
