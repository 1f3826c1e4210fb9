/**
 * Owns `usher agent bridge`: its options, what it says at its start, and how it ends. Contract: "What the
 * service does". Standard output belongs to the client; whatever a person should know goes to standard error,
 * escaped.
 */
import { join, resolve } from 'node:path'
import { format } from 'node:util'
import type { Command } from 'commander'
import type { ClientConfig } from '../../config.ts'
import { UsageError, type Terminal } from '../../terminal/command.ts'
import { untilEnding } from '../../terminal/ending.ts'
import { fromHome, homeFolder } from '../../terminal/home.ts'
import { printable } from '../../terminal/printable.ts'
import { DEFAULT_SPEC_NS } from '../../wire/names.ts'
import { checkAddress } from '../transports/transport.ts'
import type { BridgeOptions } from './core.ts'
import { CLIENT_NAME, clientSecret, listenToken } from './listen-token.ts'
import type { Serving } from './serve.ts'
import { readAcceptedTerms } from './negotiation/terms.ts'

interface BridgeValues {
  stdio?: boolean
  listen?: string
  listenTokenFile?: string
  clientName?: string
  clientId?: string
  acceptTerms?: string[]
  hold: string
  linger: string
  ownerConsole?: string
}

/** Adds `bridge`, `bridge config` and `bridge doctor`. */
export function addBridge(program: Command, readConfig: () => ClientConfig, terminal: Terminal): void {
  const bridge = program
    .command('bridge')
    .description("serve somebody's tools to any MCP client: it negotiates, waits and signs for it")
    .argument('<resources...>', 'the URLs of the MCP endpoints, as their metadata names them')
    .option('--stdio', 'serve one client on standard input and output (default)')
    .option('--listen <address>', 'serve clients on a loopback address, such as 127.0.0.1:0')
    .option(
      '--listen-token-file <file>',
      'the secret that clients of --listen send; made if it does not exist (default: a new one is printed at each start)',
    )
    .option('--client-name <name>', 'whose keys and grants to use (default: as the client calls itself)')
    .option('--client-id <url>', "the operator's client identity document")
    .option(
      '--accept-terms <hashes...>',
      'terms that are accepted without asking: a terms_s256, or: any-of <file>',
    )
    .option('--hold <seconds>', 'how long a call waits for the owner before it is answered in words', '45')
    .option('--linger <seconds>', 'how long a request that nobody waits for stays with the owner', '900')
    .option('--owner-console <url>', "the owner's console, if the agent's user is the owner")
    .action((resources: string[], values: BridgeValues) =>
      runBridge(resources, values, readConfig(), terminal),
    )
  bridge
    .command('config')
    .description('print the entry that adds the bridge to a client, or write it')
    .argument('<resources...>', 'the URLs of the MCP endpoints')
    .requiredOption('--client <name>', 'claude-desktop, claude-code, cursor, vscode or codex')
    .option('--name <name>', 'the name of the entry', 'usher')
    .option('--write [file]', "merge it into the client's own file, keeping a copy of that")
    .option(
      '--listen <address>',
      'lead the client to the bridge that listens there, with a secret of its own',
    )
    .option('--listen-token-file <file>', 'the secret of that bridge, as it was started with')
    .option('--client-name <name>', 'whose keys and grants the client uses there (default: as --client)')
    .action(async (resources: string[], _own: object, command: Command) => {
      // Those too that the bridge itself has by the same names, and therefore takes for its own.
      const values = command.optsWithGlobals<ConfigValues>()
      const { configure } = await import('./setup/client-config.ts')
      const config = readConfig()
      const options = await optionsFor(bridge, values, config)
      const start = { environment: environmentOf(config), options, allowLoopback: config.devLoopback }
      await configure({ resources, ...values, ...start, running: await runningOf(values) }, terminal)
    })
  bridge
    .command('doctor')
    .description('say what keeps the bridge from working with a resource')
    .argument('<resource>', 'the URL of the MCP endpoint')
    .option('--client-name <name>', 'whose key to look at')
    .action(async (resource: string, _own: object, command: Command) => {
      const { clientName } = command.optsWithGlobals<{ clientName?: string }>()
      refuseForDoctor(bridge)
      const { diagnose } = await import('./setup/doctor.ts')
      const config = readConfig()
      redirectConsole(sayTo(terminal))
      await diagnose({ resource, clientName, stateRoot: stateRoot(config), config }, terminal)
    })
}

/** Its options are for a bridge that serves; only the name of a client counts here. */
function refuseForDoctor(bridge: Command): void {
  const others = bridge.options.filter(
    option =>
      option.attributeName() !== 'clientName' &&
      bridge.getOptionValueSource(option.attributeName()) === 'cli',
  )
  if (others.length > 0)
    throw new UsageError(
      `Leave ${others.map(({ long }) => long).join(' and ')} out: usher agent bridge doctor takes --client-name alone.`,
    )
}

interface ConfigValues {
  client: string
  name: string
  write?: string | true
  listen?: string
  listenTokenFile?: string
  clientName?: string
}

/** The bridge's options by their flags; the last one takes as many words as follow. */
const FLAGS = [
  ['stdio', '--stdio'],
  ['clientId', '--client-id'],
  ['hold', '--hold'],
  ['linger', '--linger'],
  ['ownerConsole', '--owner-console'],
  ['acceptTerms', '--accept-terms'],
] as const

/**
 * The options that the client is to start the bridge with: those that were given, checked as the bridge does.
 * The client starts it in a folder of its own, so a file is named by its whole path.
 */
async function optionsFor(
  bridge: Command,
  { listen }: ConfigValues,
  config: ClientConfig,
): Promise<string[]> {
  const flags = FLAGS.filter(([name]) => bridge.getOptionValueSource(name) === 'cli')
  if (listen !== undefined && flags.length > 0) {
    const named = flags.map(([, flag]) => flag).join(' and ')
    throw new UsageError(`Give ${named} to the bridge that listens: the entry only leads to it.`)
  }
  const values = bridge.opts<BridgeValues>()
  await checked(values, config)
  return flags.flatMap(([name, flag]) => {
    if (name === 'stdio') return [flag]
    if (name !== 'acceptTerms') return [flag, values[name]!]
    const [first, file] = values.acceptTerms!
    return [flag, first!, ...(file === undefined ? [] : [resolve(file)])]
  })
}

/** The options that are more than a name. Fails with `UsageError` or `AgentError` at an unusable one. */
async function checked(values: BridgeValues, { devLoopback }: ClientConfig) {
  const { acceptTerms, hold, linger, ownerConsole } = values
  return {
    accepted: await readAcceptedTerms(acceptTerms),
    holdSeconds: seconds(hold, '--hold'),
    lingerSeconds: seconds(linger, '--linger'),
    ownerConsole:
      ownerConsole === undefined ? undefined : checkAddress(ownerConsole, devLoopback, "owner's console"),
  }
}

/** The bridge that runs, and the secret of the client there; its secret is made where none is yet. */
async function runningOf(values: ConfigValues): Promise<{ url: string; secret: string } | undefined> {
  const { listen, listenTokenFile, clientName = values.client } = values
  if (listen === undefined) {
    if (listenTokenFile === undefined && values.clientName === undefined) return undefined
    throw new UsageError('Give --listen-token-file and --client-name together with --listen.')
  }
  if (loopback(listen).port === 0 || listenTokenFile === undefined)
    throw new UsageError(
      'Give --listen the port of the bridge that runs, and --listen-token-file as it was started with.',
    )
  if (!CLIENT_NAME.test(clientName)) throw new UsageError('Give --client-name letters, digits, - and _.')
  const { token } = await listenToken(listenTokenFile)
  return { url: `http://${listen}/`, secret: clientSecret(token, clientName) }
}

async function runBridge(
  resources: string[],
  values: BridgeValues,
  config: ClientConfig,
  terminal: Terminal,
): Promise<void> {
  if (values.stdio === true && values.listen !== undefined)
    throw new UsageError('Give --stdio or --listen, not both.')
  if (values.listenTokenFile !== undefined && values.listen === undefined)
    throw new UsageError('Give --listen-token-file together with --listen.')
  const say = sayTo(terminal)
  redirectConsole(say)
  const options: BridgeOptions = {
    resources: [...new Set(resources)],
    stateRoot: stateRoot(config),
    clientName: values.clientName,
    clientId: values.clientId,
    ...(await checked(values, config)),
    allowLoopback: config.devLoopback,
    specNs: config.specNs,
    say,
  }
  for (const resource of options.resources) checkAddress(resource, config.devLoopback, 'resource')
  let serving: Serving
  if (values.listen === undefined) {
    const { serveOnStdio } = await import('./stdio.ts')
    serving = serveOnStdio(options)
  } else {
    const at = loopback(values.listen)
    const { serveOnLoopback } = await import('./listen.ts')
    const { token, notice } = await listenToken(values.listenTokenFile)
    serving = await serveOnLoopback(options, { ...at, token })
    say(notice)
    say(`listening on ${serving.address}`)
  }
  const done = untilEnding(() => void serving.close())
  await serving.closed
  done()
}

function sayTo(terminal: Terminal): (line: string) => void {
  return line => terminal.err(`usher bridge: ${printable(line.slice(0, LOG_LINE_LENGTH_MAX))}\n`)
}

const LOG_LINE_LENGTH_MAX = 2000

/**
 * The SDK's `console` messages, which quote the resource. They do not go to the client's channel, and are
 * escaped like all foreign text.
 */
function redirectConsole(say: (line: string) => void): void {
  for (const name of ['debug', 'info', 'log', 'warn', 'error'] as const)
    console[name] = (...noted: unknown[]) => say(format(...noted))
}

/** The variables of our environment that the bridge needs in the client's. */
function environmentOf(config: ClientConfig): Record<string, string> {
  const { devLoopback, bridgeState, stateHome, specNs, extraCaCerts } = config
  return {
    ...(devLoopback ? { UMA_DEV_LOOPBACK: 'true' } : {}),
    ...(specNs === DEFAULT_SPEC_NS ? {} : { UMA_SPEC_NS: specNs }),
    ...(stateHome === undefined ? {} : { XDG_STATE_HOME: resolve(stateHome) }),
    ...(extraCaCerts === undefined ? {} : { NODE_EXTRA_CA_CERTS: resolve(extraCaCerts) }),
    ...(bridgeState === undefined ? {} : { UMA_BRIDGE_STATE: stateRoot(config) }),
  }
}

/** `UMA_BRIDGE_STATE`, else `$XDG_STATE_HOME/usher`, else `~/.local/state/usher`. */
export function stateRoot({ bridgeState, stateHome }: ClientConfig): string {
  if (bridgeState !== undefined) return resolve(fromHome(bridgeState))
  return join(stateHome ?? join(homeFolder(), '.local', 'state'), 'usher')
}

function loopback(address: string): { host: string; port: number } {
  const [, host, port] = /^(127\.0\.0\.1|localhost|\[::1\]):(\d{1,5})$/.exec(address) ?? []
  if (host === undefined || Number(port) > 65_535)
    throw new UsageError('Give --listen a loopback address and a port, such as 127.0.0.1:0.')
  return { host: host.replace(/[[\]]/g, ''), port: Number(port) }
}

function seconds(text: string, option: string): number {
  if (!/^\d{1,6}$/.test(text)) throw new UsageError(`Give ${option} a whole number of seconds.`)
  return Number(text)
}
