/**
 * Owns `usher dev`, which `make demo` runs: it starts everything, walks the story through a real Envoy, and
 * then stays up to be tried by hand. Contract: "What the service does". Development only: plain http on
 * loopback.
 */
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { styleText } from 'node:util'
import { Command, Option } from 'commander'
import { readDevConfig } from '../config.ts'
import { Exit, EXIT, processTerminal, runCommand, type Terminal } from '../terminal/command.ts'
import { printableLines } from '../terminal/printable.ts'
import { startComposeTools, writeComposeFiles } from './stack/compose.ts'
import { startEmbeddedPostgres } from './stack/embedded-postgres.ts'
import { EnvoyAbsent, findEnvoy, type Envoy } from './stack/envoy-binary.ts'
import { runDatabase, runEnvoy } from './one-part.ts'
import { serveConsole } from '../owner/index.ts'
import { openAgent, openScene, type Scene } from './story/scene.ts'
import { ALLOWANCE_STORY } from './story/allowance-story.ts'
import { startIdentityProvider } from './stack/identity-provider.ts'
import { commandsOfSteps, legend } from './story/legend.ts'
import { openJointScene } from './story/joint-scene.ts'
import { JOINT_STORY } from './story/joint-story.ts'
import { openOrganizationScene } from './story/organization-scene.ts'
import { ORGANIZATION_STORY } from './story/organization-story.ts'
import { startStack, type Stack } from './stack/stack.ts'
import { STORY, type StoryStep } from './story/story.ts'
import { findAgain, logKeys, THEFT } from './story/theft.ts'
import { AFTER_THE_STORY, tryByHand, writeReceipt, writeTryFile } from './story/try-by-hand.ts'
import { startTurnedTally } from './stack/turned-tally.ts'

interface DevOptions {
  once?: boolean
  story: keyof typeof STORIES
  fetchEnvoy?: boolean
  files?: string
  tools?: boolean
  database?: boolean
  envoy?: string
}

/** The ports of a run that stays up, if they are free: easy to remember. */
const PREFERRED_PORTS = {
  envoy: 10000,
  authority: 9100,
  owner: 9101,
  check: 9191,
  documents: 9192,
  tool: 9300,
}
const DATABASE_CONNECTIONS_MAX = 60
/** Each story, what it starts besides the authority of alice, and how its scene is set. */
const STORIES = {
  owner: { steps: [...STORY, THEFT], starts: '', open: openScene },
  organization: { steps: ORGANIZATION_STORY, starts: 'an organization, ', open: openOrganizationScene },
  joint: { steps: JOINT_STORY, starts: 'a tally, a second authority, ', open: openJointScene },
  allowance: { steps: ALLOWANCE_STORY, starts: '', open: openScene },
}

/** Runs `usher dev` with the arguments after it. Returns the exit code: 0 if the whole story held. */
export function runDev(args: readonly string[], terminal: Terminal = processTerminal): Promise<number> {
  const program = new Command('usher dev')
    .description(
      'Walk the whole story on this machine through a real Envoy, then stay up to be tried by hand.',
    )
    .option('--once', 'end after the story')
    .addOption(
      new Option(
        '--story <name>',
        'which story: hers, of an organization above her, of what she holds jointly, or of an allowance',
      )
        .choices(Object.keys(STORIES))
        .default('owner'),
    )
    .option('--fetch-envoy', 'only make sure that there is an Envoy, then end')
    .option('--files <directory>', 'only write the files that envoy/compose.yaml needs, then end')
    .option('--tools', 'only run the sample server, as envoy/compose.yaml does')
    .option('--database', 'only run a throw-away Postgres, whose URL is printed (docs/tutorial.md)')
    .option('--envoy <file>', 'only run Envoy on a file of yours (docs/tutorial.md)')
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
  if (options.database === true) return runDatabase(terminal, interrupted())
  const envoy = await obtainEnvoy(terminal)
  if (options.envoy !== undefined) {
    const status = await runEnvoy(envoy, options.envoy, interrupted())
    if (status !== 0) throw new Exit(EXIT.refused)
    return
  }
  if (options.fetchEnvoy === true) return terminal.out(`Envoy: ${envoy.source}\n`)
  const run: Run = { terminal, undo: [], interrupted: interruption() }
  try {
    await show(run, envoy, options)
  } finally {
    for (const undo of run.undo.reverse()) await undo()
  }
}

async function obtainEnvoy(terminal: Terminal): Promise<Envoy> {
  const { envoyBin } = readDevConfig()
  try {
    return await findEnvoy({
      binary: envoyBin,
      fetch: true,
      onProgress: sentence => terminal.err(`${sentence} …\n`),
    })
  } catch (error) {
    if (!(error instanceof EnvoyAbsent)) throw error
    terminal.err(`${error.message}\n`)
    throw new Exit(EXIT.refused)
  }
}

async function show(run: Run, envoy: Envoy, { story, once = false }: DevOptions): Promise<void> {
  const { steps, open } = STORIES[story]
  const { terminal } = run
  const directory = await mkdtemp(join(tmpdir(), 'usher-dev-'))
  let keepsLogs = true
  run.undo.push(async () => {
    if (!keepsLogs) await rm(directory, { recursive: true, force: true })
  })
  try {
    const stack = await start(run, envoy, { directory, story, once })
    const scene = await open(stack)
    run.undo.push(() => scene.close())
    terminal.out(legend(stack))
    const commands = once || story !== 'owner' ? [] : [...commandsOfSteps(stack), findAgain(stack)]
    const seconds = await walk(run, { steps, commands }, scene)
    if (once) terminal.out(AFTER_THE_STORY)
    // The last line of a run that ends by itself, for readers who read only that.
    terminal.out(`${bold(`All ${steps.length} steps held (${seconds} s).`)}\n`)
    if (!once) await stayUp(run, stack, scene)
    keepsLogs = false
  } catch (error) {
    if (error instanceof Interrupted) {
      keepsLogs = false
      throw new Exit(EXIT.interrupted)
    }
    if (!(error instanceof Exit)) terminal.err(`\n${describe(error)}\n`)
    keepsLogs = (await readdir(directory)).length > 0
    if (keepsLogs) terminal.err(`The logs are in ${directory}\n`)
    throw new Exit(EXIT.refused)
  }
}

async function start(
  run: Run,
  envoy: Envoy,
  { directory, story, once }: { directory: string } & Pick<DevOptions, 'story' | 'once'>,
): Promise<Stack> {
  const began = performance.now()
  run.terminal.out(
    `Starting Postgres, ${STORIES[story].starts}the authority, the sidecar, an MCP server and Envoy (${envoy.source}) …\n`,
  )
  const databaseUrl = async (): Promise<string> => {
    const postgres = await startEmbeddedPostgres({ maxConnections: DATABASE_CONNECTIONS_MAX })
    run.undo.push(() => postgres.stop())
    return postgres.url
  }
  const stack = await startStack({
    directory: join(directory, 'stack'),
    databaseUrl: await databaseUrl(),
    // It has its own database server.
    organization: story === 'organization' ? await organization(run, await databaseUrl()) : undefined,
    joint: story === 'joint' ? await joint(run, databaseUrl) : undefined,
    authorityEnvironment: story === 'owner' ? await logKeys(directory) : undefined,
    envoy,
    // Of a run that ends by itself nobody calls the ports, and another may run beside it.
    preferredPorts: once === true ? undefined : PREFERRED_PORTS,
  })
  run.undo.push(() => stack.stop())
  const seconds = ((performance.now() - began) / 1000).toFixed(1)
  run.terminal.out(
    `Up in ${seconds} s: agents call ${stack.resource}, alice's authority is ${stack.issuer}\n\n`,
  )
  return stack
}

async function organization(run: Run, databaseUrl: string) {
  const identityProvider = await startIdentityProvider()
  run.undo.push(() => identityProvider.stop())
  return { databaseUrl, identityProvider }
}

async function joint(run: Run, databaseUrl: () => Promise<string>) {
  const turned = await startTurnedTally()
  run.undo.push(() => turned.stop())
  return { databases: { tally: await databaseUrl(), authority: await databaseUrl() }, turned }
}

/** @returns how many seconds it took. */
async function walk(
  run: Run,
  { steps, commands }: { steps: readonly StoryStep[]; commands: readonly (string | undefined)[] },
  scene: Scene,
): Promise<string> {
  const began = performance.now()
  for (const [index, step] of steps.entries()) {
    run.terminal.out(`${bold(`${String(index + 1).padStart(2)}. ${step.title}`)}\n`)
    const lines = await Promise.race([walkStep(run, step, scene), run.interrupted])
    const command = commands[index]
    const again = command === undefined ? [] : [`$ ${command}`]
    const shown = [...lines, ...again].map(line => `    ${printableLines(line)}\n`)
    run.terminal.out(`${shown.join('')}\n`)
  }
  return ((performance.now() - began) / 1000).toFixed(1)
}

async function walkStep({ terminal }: Run, step: StoryStep, scene: Scene): Promise<string[]> {
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

/**
 * Her page, signed in as alice, with a request of an unknown agent. @returns the link; undefined if the page
 * is not built.
 */
async function openConsole(run: Run, stack: Stack): Promise<string | undefined> {
  const { ownerApi: api, issuer, household } = stack
  const served = await serveConsole({ api, issuer, key: household.ownerKey }).catch(() => undefined)
  if (served === undefined) return undefined
  run.undo.push(() => served.close())
  openAgent(stack, { waitSecondsMax: 1 }).startCall('portfolio_read', {})
  return served.link
}

/** Waits until the user ends it, or until a part of it ends by itself. */
async function stayUp(run: Run, stack: Stack, { memory }: Scene): Promise<void> {
  const link = await openConsole(run, stack)
  const receipt = await writeReceipt(stack, memory.receipt)
  run.terminal.out(tryByHand(stack, { tryFile: await writeTryFile(stack), link, receipt }))
  const ended = Promise.race(stack.children.map(child => child.exited.then(() => child)))
  const child = await Promise.race([ended, run.interrupted.catch(() => undefined)])
  // If the user ends it, that is no failure: the story held.
  if (child !== undefined) throw new Error(await child.ended())
  run.terminal.out(`\nIt ends, and ${stack.directory} is removed with its logs.\n`)
}

class Interrupted extends Error {}

function interruption(): Promise<never> {
  const interrupted = new Promise<never>((_, reject) => {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => reject(new Interrupted()))
  })
  interrupted.catch(() => undefined)
  return interrupted
}

/** Resolves when the user has had enough. */
function interrupted(): Promise<void> {
  return interruption().catch(() => undefined)
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const cause = error.cause === undefined ? '' : `\n  because: ${describe(error.cause)}`
  return printableLines(`${error.message}${cause}`)
}

function bold(text: string): string {
  return styleText('bold', text, { stream: process.stdout })
}
