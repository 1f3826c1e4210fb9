/**
 * Owns the package that an upgrade starts from: the latest one in this folder, with the schema dump of each
 * party's database (`make upgrade-package` cuts both). It is unpacked alone: its command is one bundle, so
 * that no later version of a dependency changes what the released program does.
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Requirement } from '../support/requirement.ts'

/** With the arguments by which the command migrates the database of each. */
export const PARTIES = {
  authority: ['migrate'],
  organization: ['organization', 'migrate'],
  tally: ['tally', 'migrate'],
} as const
export type Party = keyof typeof PARTIES

export interface Released {
  version: string
  /** The statements of its schema dump. */
  schemaOf(party: Party): string
  /** Unpacks it; answers what Node is to run. */
  unpack(): { program: string[]; remove: () => void }
}

const PACKAGE = /^(\d+)\.(\d+)\.(\d+)\.tgz$/

/** The paths of a package and its dumps. */
export const artefact = (name: string): string => join(import.meta.dirname, name)
export const dumpName = (version: string, party: Party): string => `${version}.${party}.sql`

/** The latest. */
export function released(): Requirement<Released> {
  const rank = (name: string): number =>
    PACKAGE.exec(name)!
      .slice(1)
      .reduce((sum, part) => sum * 10_000 + Number(part), 0)
  const [latest] = readdirSync(import.meta.dirname)
    .filter(name => PACKAGE.test(name))
    .toSorted((a, b) => rank(b) - rank(a))
  if (latest === undefined)
    return {
      missing: 'test/upgrade holds no released package to upgrade from: cut it with `make upgrade-package`.',
    }
  const version = latest.slice(0, -'.tgz'.length)
  return {
    found: {
      version,
      schemaOf: party => readFileSync(artefact(dumpName(version, party)), 'utf8'),
      unpack: () => unpack(artefact(latest)),
    },
  }
}

/** Unpacks a package into its own folder, in which nothing else is found. */
export function unpack(file: string): { program: string[]; remove: () => void } {
  const folder = mkdtempSync(join(tmpdir(), 'usher-released-'))
  execFileSync('tar', ['-xzf', file, '-C', folder, '--strip-components=1'])
  const { bin } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as { bin: { usher: string } }
  return { program: [join(folder, bin.usher)], remove: () => rmSync(folder, { recursive: true }) }
}
