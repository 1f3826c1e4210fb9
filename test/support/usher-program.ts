/**
 * Owns the `usher` that tests spawn: the command line bundled as the package and the image have it. From the
 * sources each process strips the types of a thousand modules, which takes three times as long as its start.
 */
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { cpSync, existsSync, mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { digestOf, markUsed, removeUnused } from './made-once.ts'
import { ROOT } from './repository.ts'

const KEPT = join(ROOT, '.cache', 'usher')
/** What the bundle is made of, and what it reads when it runs. */
const BUNDLED = ['src', 'package.json', 'package-lock.json', 'rolldown.config.js']
const BESIDE = ['migrations', 'proto', 'envoy']

/**
 * Compiling the bundle is an eighth of the processor's time that a start takes. Each process finds what an
 * earlier one compiled beside the bundle, so that it goes when the bundle goes.
 */
const START = `import { enableCompileCache } from 'node:module'
import { join } from 'node:path'
enableCompileCache(join(import.meta.dirname, 'compiled'))
await import('./dist/bin/usher/cli.js')
`

let known: string | undefined

/**
 * The file that Node is to run. It is bundled once for what the tree holds: the same text gives the same
 * file, also in the copies of the tree that faults are brought into.
 */
export function usherProgram(): string {
  known ??= bundled()
  return known
}

function bundled(): string {
  const folder = join(KEPT, digestOf([...BUNDLED, ...BESIDE]))
  const program = join(folder, 'start.js')
  if (!existsSync(program)) bundleInto(folder)
  markUsed(folder)
  return program
}

/** Under another name first: whoever finds the folder finds all of it. */
function bundleInto(folder: string): void {
  mkdirSync(KEPT, { recursive: true })
  removeUnused(KEPT)
  const making = `${folder}.${randomBytes(4).toString('hex')}`
  const dist = join(making, 'dist')
  mkdirSync(dist, { recursive: true })
  writeFileSync(join(making, 'start.js'), START)
  cpSync(join(ROOT, 'package.json'), join(making, 'package.json'))
  for (const name of BESIDE) cpSync(join(ROOT, name), join(dist, name), { recursive: true })
  symlinkSync('../../../console', join(dist, 'console'))
  const rolldown = join(ROOT, 'node_modules', '.bin', 'rolldown')
  execFileSync(
    rolldown,
    ['--config', 'rolldown.config.js', '--dir', join(dist, 'bin', 'usher'), '--log-level', 'silent'],
    { cwd: ROOT },
  )
  try {
    renameSync(making, folder)
  } catch (error) {
    // Another worker was first, with the same.
    rmSync(making, { recursive: true })
    if (!existsSync(folder)) throw error
  }
}
