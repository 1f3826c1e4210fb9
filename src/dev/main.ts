/**
 * Owns `usher dev`, which `make demo` runs: everything started, the story walked through a real Envoy, then
 * left up to be tried by hand. Contract: "What the service does". Development only: plain http on loopback.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { styleText } from 'node:util'
import { Command } from 'commander'
import { readDevConfig } from '../config.ts'
import { Exit, EXIT, processTerminal, runCommand, type Terminal } from '../terminal/command.ts'
import { printableLines } from '../terminal/printable.ts'
import { startComposeTools, writeComposeFiles } from './compose.ts'
import { startEmbeddedPostgres } from './embedded-postgres.ts'
import { EnvoyAbsent, findEnvoy, type Envoy } from './envoy-binary.ts'
import { openScene, type Scene } from './scene.ts'
import { startStack, type Stack } from './stack.ts'
import { STORY, type Step } from './story.ts'
import { afterTheStory, tryByHand, writeTryFile } from './try-by-hand.ts'

interface DevOptions {
  once?: boolean
  fetchEnvoy?: boolean
  files?: string
  tools?: boolean
}

/** Where things listen if nothing else does: easy to remember. */
const PREFERRED_PORTS = {
  envoy: 10000,
  authority: 9100,
  owner: 9101,
  check: 9191,
  documents: 9192,
  tool: 9300,
}
const DATABASE_CONNECTIONS_MAX = 60

/** Runs `usher dev` with the arguments after it. Answers the exit code: 0 where the whole story held. */
export function runDev(args: readonly string[], terminal: Terminal = processTerminal): Promise<number> {
  const program = new Command('usher dev')
    .description(
      'Walk the whole story on this machine through a real Envoy, then stay up to be tried by hand.',
    )
    .option('--once', 'end after the story')
    .option('--fetch-envoy', 'only make sure that there is an Envoy, then end')
    .option('--files <directory>', 'only write the files that envoy/compose.yaml needs, then end')
    .option('--tools', 'only run the sample server, as envoy/compose.yaml does')
    .action((options: DevOptions) => dev(options, terminal))
  return runCommand(program, args, terminal)
}

/** What is said, and what must be undone, last first. */
interface Run {
  terminal: Terminal
  undo: (() => Promise<unknown>)[]
  /** Rejects when the user has had enough. */
  interrupted: Promise<never>
}

async function dev(options: DevOptions, terminal: Terminal): Promise<void> {
  if (options.files !== undefined) return writeComposeFiles(options.files)
  if (options.tools === true) return void (await startComposeTools())
  const envoy = await obtainEnvoy(terminal)
  if (options.fetchEnvoy === true) return terminal.out(`Envoy: ${envoy.source}\n`)
  const run: Run = { terminal, undo: [], interrupted: interruption() }
  try {
    await show(run, envoy, options.once === true)
  } finally {
    for (const undo of run.undo.reverse()) await undo()
  }
}

async function obtainEnvoy(terminal: Terminal): Promise<Envoy> {
  const { envoyBin } = readDevConfig()
  try {
    return await findEnvoy({
      given: envoyBin,
      fetch: true,
      onProgress: sentence => terminal.err(`${sentence} …\n`),
    })
  } catch (error) {
    if (!(error instanceof EnvoyAbsent)) throw error
    terminal.err(`${error.message}\n`)
    throw new Exit(EXIT.refused)
  }
}

async function show(run: Run, envoy: Envoy, once: boolean): Promise<void> {
  const { terminal } = run
  const directory = await mkdtemp(join(tmpdir(), 'usher-dev-'))
  let logsWanted = true
  run.undo.push(async () => {
    if (!logsWanted) await rm(directory, { recursive: true, force: true })
  })
  try {
    const stack = await start(run, envoy, directory)
    const scene = await openScene(stack)
    run.undo.push(() => scene.close())
    const seconds = await walk(run, scene)
    if (once) terminal.out(afterTheStory(stack))
    // The last line of what ends by itself, for whoever reads only that.
    terminal.out(`${bold(`All ${STORY.length} steps held (${seconds} s).`)}\n`)
    if (!once) await stayUp(run, stack)
    logsWanted = false
  } catch (error) {
    if (error instanceof Interrupted) {
      logsWanted = false
      throw new Exit(EXIT.interrupted)
    }
    if (!(error instanceof Exit)) terminal.err(`\n${describe(error)}\n`)
    terminal.err(`The logs are in ${directory}\n`)
    throw new Exit(EXIT.refused)
  }
}

async function start(run: Run, envoy: Envoy, directory: string): Promise<Stack> {
  const began = performance.now()
  run.terminal.out(
    `Starting Postgres, the authority, the sidecar, an MCP server and Envoy (${envoy.source}) …\n`,
  )
  const postgres = await startEmbeddedPostgres({ maxConnections: DATABASE_CONNECTIONS_MAX })
  run.undo.push(() => postgres.stop())
  const stack = await startStack({
    directory: join(directory, 'stack'),
    databaseUrl: postgres.url,
    envoy,
    preferredPorts: PREFERRED_PORTS,
  })
  run.undo.push(() => stack.stop())
  const seconds = ((performance.now() - began) / 1000).toFixed(1)
  run.terminal.out(
    `Up in ${seconds} s: agents call ${stack.resource}, alice's authority is ${stack.issuer}\n\n`,
  )
  return stack
}

/** @returns how many seconds it took. */
async function walk(run: Run, scene: Scene): Promise<string> {
  const began = performance.now()
  for (const [index, step] of STORY.entries()) {
    run.terminal.out(`${bold(`${String(index + 1).padStart(2)}. ${step.title}`)}\n`)
    const lines = await Promise.race([walkStep(run, step, scene), run.interrupted])
    run.terminal.out(`${lines.map(line => `    ${printableLines(line)}\n`).join('')}\n`)
  }
  return ((performance.now() - began) / 1000).toFixed(1)
}

async function walkStep({ terminal }: Run, step: Step, scene: Scene): Promise<string[]> {
  try {
    return await step.walk(scene)
  } catch (error) {
    terminal.err(`\n${bold('This step failed:')} ${step.title}\n${describe(error)}\n`)
    for (const child of scene.stack.children) {
      const ending = await child.ended()
      if (ending !== undefined) terminal.err(`${ending}\n`)
    }
    throw new Exit(EXIT.refused)
  }
}

/** Until the user ends it, or a part of it ends by itself. */
async function stayUp(run: Run, stack: Stack): Promise<void> {
  run.terminal.out(tryByHand(stack, await writeTryFile(stack)))
  const ended = Promise.race(stack.children.map(child => child.exited.then(() => child)))
  const child = await Promise.race([ended, run.interrupted.catch(() => undefined)])
  // That the user has had enough is no failure: the story held.
  if (child !== undefined) throw new Error(await child.ended())
}

class Interrupted extends Error {}

function interruption(): Promise<never> {
  const interrupted = new Promise<never>((_, reject) => {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => reject(new Interrupted()))
  })
  interrupted.catch(() => undefined)
  return interrupted
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const cause = error.cause === undefined ? '' : `\n  because: ${describe(error.cause)}`
  return printableLines(`${error.message}${cause}`)
}

function bold(text: string): string {
  return styleText('bold', text, { stream: process.stdout })
}
