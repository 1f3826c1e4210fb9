/**
 * Owns what the package says about itself: its version, and the Node that it needs. Contract: "Versioning".
 */
import { readFileSync } from 'node:fs'
import { extname } from 'node:path'

interface Manifest {
  version: string
  engines: { node: string }
}

/**
 * The package's own manifest. This module stays two folders deep: the same relative path leads there from the
 * bundle.
 */
export function readManifest(): Manifest {
  // One folder further up after the build.
  const root = extname(import.meta.filename) === '.ts' ? '../../' : '../../../'
  return JSON.parse(readFileSync(new URL(`${root}package.json`, import.meta.url), 'utf8')) as Manifest
}

/**
 * What is wrong with this Node, as a sentence; undefined if the package runs on it. `needed` is written as
 * `>=22.18`.
 */
export function nodeFault(running: string, needed: string): string | undefined {
  const least = needed.replace(/^>=/, '')
  const [theirs, ours] = [running, least].map(version => version.split('.').map(Number))
  for (const place of [0, 1, 2]) {
    const difference = (theirs![place] ?? 0) - (ours![place] ?? 0)
    if (difference > 0) return undefined
    if (difference < 0)
      return `usher needs Node ${least} or later, and this is Node ${running}: install a current one.`
  }
  return undefined
}
