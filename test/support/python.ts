/**
 * Owns the Python programs that tests run beside ours: other people's libraries and clients.
 * `python/<set>.txt` pins each whole set; it has its own virtual environment in the project's cache, made by
 * `make python` and never by a test, so that no test waits for a download.
 */
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { mkdir, rename, rm } from 'node:fs/promises'
import { homedir } from 'node:os'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'
import { ROOT } from './repository.ts'
import type { Requirement } from './requirement.ts'

const run = promisify(execFile)
const SETS = join(import.meta.dirname, 'python')
const CACHE = join(ROOT, '.cache', 'python')
const INSTALL = 'install --quiet --disable-pip-version-check --no-deps --only-binary :all: --requirement'
const INSTALL_TIMEOUT_MS = 300_000
/** Tried in this order, behind it those of pyenv, where a set needs more than the first one is. */
const INTERPRETERS = ['python3', 'python3.14', 'python3.13', 'python3.12']
const RUN_TIMEOUT_MS = 60_000

/** An interpreter that has one set of packages. */
export interface Python {
  /** The interpreter, to be started as a process. */
  program: string
  /**
   * Runs a script of `test/support/python`: it reads `input` as JSON from its standard input and answers JSON
   * on its standard output.
   */
  ask(script: string, input: unknown): Promise<unknown>
}

/** The interpreter for `python/<set>.txt`, or the line that says how to make it. */
export function python(set: string): Requirement<Python> {
  const program = interpreter(placeOf(set))
  return existsSync(program)
    ? { found: { program, ask: (script, input) => ask(program, script, input) } }
    : {
        missing: `the Python packages of test/support/python/${set}.txt are not installed: run \`make python\`, with the Python that the file names`,
      }
}

/** By the text of its pins too, so that changed ones are installed anew. */
function placeOf(set: string): string {
  const pins = readFileSync(join(SETS, `${set}.txt`))
  return join(CACHE, `${set}-${createHash('sha256').update(pins).digest('hex').slice(0, 12)}`)
}

function interpreter(place: string): string {
  return join(place, 'bin', 'python')
}

async function ask(program: string, script: string, input: unknown): Promise<unknown> {
  const asked = run(program, [join(SETS, script)], { timeout: RUN_TIMEOUT_MS })
  asked.child.stdin!.end(JSON.stringify(input))
  const { stdout } = await asked
  return JSON.parse(stdout)
}

/**
 * Installs what is not there yet. A set is made in a temporary place and then moved, so that an interrupted
 * install leaves no half of it.
 */
async function install(set: string): Promise<void> {
  const place = placeOf(set)
  if (existsSync(interpreter(place))) return
  const recent = await interpreterFor(set)
  if (recent === undefined) return
  const staging = `${place}.${process.pid}`
  try {
    await mkdir(CACHE, { recursive: true })
    // Without a pip of its own, which Debian's Python cannot give it; the machine's installs into it.
    await run(recent, ['-m', 'venv', '--without-pip', staging])
    const into = ['-m', 'pip', '--python', interpreter(staging), ...INSTALL.split(' ')]
    await run('python3', [...into, join(SETS, `${set}.txt`)], { timeout: INSTALL_TIMEOUT_MS })
    await rename(staging, place)
  } finally {
    await rm(staging, { recursive: true, force: true })
  }
}

/** An interpreter of at least the version that the set names (`# Python 3.12 or later`), if there is one. */
async function interpreterFor(set: string): Promise<string | undefined> {
  const pins = readFileSync(join(SETS, `${set}.txt`), 'utf8')
  const least = /^# Python (\d+)\.(\d+) or later/m.exec(pins)?.slice(1) ?? ['3', '0']
  const versions = join(process.env['PYENV_ROOT'] ?? join(homedir(), '.pyenv'), 'versions')
  const ofPyenv = existsSync(versions) ? readdirSync(versions).toSorted().toReversed() : []
  const programs = [...INTERPRETERS, ...ofPyenv.map(name => join(versions, name, 'bin', 'python3'))]
  for (const program of programs) {
    const check = `import sys; sys.exit(sys.version_info < (${least.join(', ')}))`
    const isRecent = await run(program, ['-c', check]).then(
      () => true,
      () => false,
    )
    if (isRecent) return program
  }
  console.warn(
    `test/support/python/${set}.txt needs Python ${least.join('.')}, which is not here: its tests cannot run.`,
  )
  return undefined
}

if (import.meta.main) {
  const sets = readdirSync(SETS).filter(name => name.endsWith('.txt'))
  for (const name of sets) await install(basename(name, '.txt'))
}
