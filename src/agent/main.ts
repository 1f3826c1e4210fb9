/**
 * Owns `usher agent`: the agent from a command line. Contract: "What the service does", beats 1 to 4, told
 * step by step. Texts of others (terms, refusals, tool answers) are escaped before they reach the terminal.
 */
import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { Command } from 'commander'
import { thumbprintHandle } from '../wire/agents/handles.ts'
import { ConfigFault, readClientConfig } from '../config.ts'
import {
  EXIT,
  processTerminal,
  runCommand,
  UsageError,
  type CommandEnd,
  type Terminal,
} from '../terminal/command.ts'
import { untilEnding } from '../terminal/ending.ts'
import { fromHome } from '../terminal/home.ts'
import { readKeyFile, writeNewKey } from '../terminal/key-file.ts'
import { printable, printableJson, printableTime, table } from '../terminal/printable.ts'
import { inexactSentence, parseJson, parseJsonExact, type JsonObject } from '../wire/json.ts'
import { importPublicJwk, publicJwk } from '../wire/signatures/keys.ts'
import { Refusal } from '../wire/refusal.ts'
import { AgentError } from './agent-error.ts'
import { addBridge } from './bridge/command.ts'
import { assertionByCommand } from './negotiation/identity-command.ts'
import { createAgent, type Agent, type AgentOptions, type CallOptions } from './index.ts'
import { confirmAtTerminal, parseToPrint, resultText, teller } from './narrate.ts'
import { fileStore } from './store.ts'

/** The options for the key, the store and the output format; every subcommand has them. */
interface CommonOptions {
  key?: string
  store?: string
  json?: boolean
}

/** The agent's description of itself, and its behaviour. */
interface IdentityOptions {
  clientId?: string
  signatureAgent?: string
  agentToken?: string
  identityIssuer?: string[]
  identityCommand?: string
  reason?: string
  mission?: string
  introduction?: string
  signIntroduction?: string
  wait?: number
  confirm?: boolean
  http?: string | true
  mcpVersion?: '2026-07-28' | '2025-11-25'
}

/** Runs `usher agent` with the arguments after it. Returns the exit code (see `terminal/command.ts`). */
export function runAgent(args: readonly string[], terminal: Terminal = processTerminal): Promise<number> {
  return runCommand(agentCommand(terminal), args, terminal, endingOf)
}

function agentCommand(terminal: Terminal): Command {
  const program = new Command('usher agent')
    .description("Call somebody's tools on her terms. Signs with the agent's key.")
    .option('--key <file>', "the agent's key (UMA_AGENT_KEY)")
    .option('--store <directory>', 'the folder for receipts and standing grants (UMA_AGENT_STORE)')
    .option('--json', 'JSON for scripts: the outcome alone, no steps')
  const common = (): CommonOptions => program.opts<CommonOptions>()
  program
    .command('keygen')
    .description('make the key, and print its public half')
    .action(() => keygen(common(), terminal))
  addCalls(program, common, terminal)
  program
    .command('introduce')
    .description('sign an introduction of another agent, good for five minutes')
    .requiredOption('--newcomer <file>', "the other agent's public JWK")
    .requiredOption('--authority <url>', 'the authority it is for')
    .option('--agent-token <token>', 'the aa-agent+jwt of the agent that introduces, or @file')
    .action((options: IntroduceOptions) => introduce(common(), options, terminal))
  addBridge(program, readClientConfig, terminal)
  program
    .command('receipts')
    .description('the receipts this agent holds, oldest first')
    .action(() => receipts(common(), terminal))
  return program
}

function addCalls(program: Command, common: () => CommonOptions, terminal: Terminal): void {
  const call = program.command('call').description('call a tool, and negotiate for it if that is needed')
  call
    .option('--wait <seconds>', "how long to wait for the owner's decision (default 600)", wholeNumber)
    .option('--confirm', 'ask before the terms are signed')
    .action((resource: string, tool: string, args: string | undefined, options: IdentityOptions) =>
      callTool(common(), { resource, tool, args, options }, terminal),
    )
  const decline = program.command('decline').description('ask for the terms of a call, and decline them')
  decline.action((resource: string, tool: string, args: string | undefined, options: IdentityOptions) =>
    declineTerms(common(), { resource, tool, args, options }, terminal),
  )
  const breakGlass = program
    .command('break-glass')
    .description(
      'call a tool in an emergency, by leave of the owner’s organization; she is notified of all of it',
    )
  breakGlass
    .requiredOption('--organization <url>', "the issuer of the owner's organization")
    .requiredOption('--owner <owner>', 'whose tool it is')
    .requiredOption('--resource-id <id>', 'the resource of the tool, as the terms name it')
    .requiredOption('--scope <scope...>', 'the scopes that the call needs')
    .option(
      '--voucher <voucher>',
      'of an administrator, or @file; without one, --client-id is that of an invoker',
    )
    .action((resource: string, tool: string, args: string | undefined, options: EmergencyOptions) =>
      breakGlassCall(common(), { resource, tool, args, options }, terminal),
    )
  for (const command of [call, decline, breakGlass]) {
    command
      .argument(
        '<resource>',
        'the URL of the MCP endpoint or the base of a plain API, as its metadata names it',
      )
      .argument('<tool>', 'the tool')
      .argument(
        '[arguments]',
        'its arguments, a JSON object; for a plain API {"path":{…},"query":{…},"body":…}',
      )
      .option(
        '--http [operation]',
        "call a plain API: 'GET /accounts/{account}', or without a value as the resource publishes it",
      )
      .option('--client-id <url>', "the operator's client identity document")
      .option('--signature-agent <url>', "the operator's key directory")
      .option('--agent-token <token>', 'an aa-agent+jwt for this key, or @file')
      .option('--identity-issuer <url...>', 'who may vouch for this agent (UMA_AGENT_IDENTITY_ISSUERS)')
      .option(
        '--identity-command <command>',
        'a program that reads the request as JSON and prints an identity assertion (UMA_AGENT_IDENTITY_COMMAND)',
      )
      .option('--reason <text>', 'why, in your own words, for the owner')
      .option('--mission <approver#s256>', 'a mission reference: the approver’s URL, #, the hash')
      .option('--introduction <jws>', 'an introduction by an agent the owner knows, or @file')
      .option(
        '--sign-introduction <file>',
        'the key of the agent that introduces this one, to sign a new introduction',
      )
      .option('--mcp-version <revision>', '2026-07-28 or 2025-11-25; left out, the server is asked')
  }
}

interface EmergencyOptions extends IdentityOptions {
  organization: string
  owner: string
  resourceId: string
  scope: string[]
  voucher?: string
}

interface IntroduceOptions {
  newcomer: string
  authority: string
  agentToken?: string
}

interface CallArguments {
  resource: string
  tool: string
  args: string | undefined
  options: IdentityOptions
}

async function keygen(common: CommonOptions, terminal: Terminal): Promise<void> {
  const path = keyPath(common)
  const key = await writeNewKey(path)
  if (common.json !== true)
    terminal.err(`Made a key in ${printable(path)}. Its handle is ${thumbprintHandle(key)}\n`)
  terminal.out(`${printableJson(publicJwk(key))}\n`)
}

async function callTool(common: CommonOptions, input: CallArguments, terminal: Terminal): Promise<void> {
  const { resource, tool, args, options } = input
  const { signal, done } = interruptible()
  try {
    const http = readHttp(options.http)
    const agent = await openAgent(common, options, terminal)
    const outcome = await agent.call({ resource, tool, arguments: readArguments(args), http, signal })
    terminal.out(common.json === true ? `${printableJson(outcome)}\n` : resultText(outcome.result))
  } finally {
    done()
  }
}

async function breakGlassCall(
  common: CommonOptions,
  input: CallArguments & { options: EmergencyOptions },
  terminal: Terminal,
): Promise<void> {
  const { resource, tool, args, options } = input
  const { organization, owner, resourceId: resource_id, scope: scopes, reason } = options
  const voucher = await readMaybeFile(options.voucher)
  const http = readHttp(options.http)
  const agent = await openAgent(common, options, terminal)
  const call = { resource, tool, arguments: readArguments(args), http }
  const outcome = await agent.breakGlass(call, { organization, owner, resource_id, scopes, reason, voucher })
  terminal.out(common.json === true ? `${printableJson(outcome)}\n` : resultText(outcome.result))
}

async function declineTerms(common: CommonOptions, input: CallArguments, terminal: Terminal): Promise<void> {
  const { resource, tool, args, options } = input
  const http = readHttp(options.http)
  const agent = await openAgent(common, options, terminal)
  const template = await agent.decline({ resource, tool, arguments: readArguments(args), http })
  if (common.json === true) terminal.out(`${printableJson({ declined: template })}\n`)
}

async function introduce(
  common: CommonOptions,
  options: IntroduceOptions,
  terminal: Terminal,
): Promise<void> {
  const agent = await openAgent(common, pick(options.agentToken), terminal)
  const newcomer = importPublicJwk(parseJson(await readInput(options.newcomer)))
  const introduction = await agent.introduce({ newcomer: newcomer.jwk, authority: options.authority })
  terminal.out(common.json === true ? `${printableJson({ introduction })}\n` : `${introduction}\n`)
}

async function receipts(common: CommonOptions, terminal: Terminal): Promise<void> {
  const list = await fileStore(storePath(common)).receipts()
  if (common.json === true) return terminal.out(`${printableJson(list)}\n`)
  if (list.length === 0) return terminal.out('No receipts yet.\n')
  const rows = list.map(one => [
    printableTime(one.at),
    one.owner,
    one.tool,
    one.template_id,
    one.family,
    one.rpt,
  ])
  terminal.out(table(['time', 'owner', 'tool', 'terms', 'family', 'grant'], rows))
}

async function openAgent(
  common: CommonOptions,
  options: IdentityOptions,
  terminal: Terminal,
): Promise<Agent> {
  const config = readClientConfig()
  const sign = options.signIntroduction
  const command = options.identityCommand ?? config.agentIdentityCommand
  const settings: AgentOptions = {
    key: await readKeyFile(keyPath(common), 'usher agent keygen'),
    client_id: options.clientId,
    signature_agent: options.signatureAgent,
    agent_token: await readMaybeFile(options.agentToken),
    identity_issuers: options.identityIssuer ?? config.agentIdentityIssuers,
    identityAssertion: command === undefined ? undefined : assertionByCommand(command),
    reason: options.reason,
    mission: readMission(options.mission),
    introduction: await readMaybeFile(options.introduction),
    sign_introduction:
      sign === undefined ? undefined : { key: await readKeyFile(sign, 'usher agent keygen') },
    store: fileStore(storePath(common)),
    waitSecondsMax: options.wait,
    mcpVersion: readVersion(options.mcpVersion),
    parseAnswer: parseToPrint,
    allowLoopback: config.devLoopback,
    specNs: config.specNs,
    onEvent: common.json === true ? undefined : teller(terminal),
    confirmTerms: options.confirm === true ? template => confirmAtTerminal(template, terminal) : undefined,
  }
  return createAgent(settings)
}

function pick(agentToken: string | undefined): IdentityOptions {
  return agentToken === undefined ? {} : { agentToken }
}

function readArguments(text: string | undefined): JsonObject | undefined {
  if (text === undefined) return undefined
  const { value: json, inexactNumber } = readJsonText(text)
  if (inexactNumber !== undefined) throw new UsageError(inexactSentence(inexactNumber))
  if (typeof json !== 'object' || json === null || Array.isArray(json)) {
    throw new UsageError(`Give the arguments of the tool as a JSON object, for example '{"symbol":"VTI"}'.`)
  }
  return json
}

function readJsonText(text: string): ReturnType<typeof parseJsonExact> {
  try {
    return parseJsonExact(text)
  } catch (cause) {
    if (!(cause instanceof Refusal)) throw cause
    throw new UsageError(`The arguments of the tool are no usable JSON: ${cause.detail ?? cause.code}`, {
      cause,
    })
  }
}

function readHttp(option: string | true | undefined): CallOptions['http'] {
  if (option === undefined) return undefined
  if (option === true) return 'published'
  const [, method, path] = /^([A-Z]+)(?: (\/\S*))?$/.exec(option) ?? []
  if (method === undefined)
    throw new UsageError("Give --http as method and path, such as 'GET /accounts/{account}'.")
  return { method, path: path ?? '' }
}

function readMission(text: string | undefined): AgentOptions['mission'] {
  if (text === undefined) return undefined
  const [approver, s256, ...rest] = text.split('#')
  if (!approver || !s256 || rest.length > 0) {
    throw new UsageError('Give the mission as <approver>#<s256>, for example https://approver.example#Zk3…')
  }
  return { approver, s256 }
}

function readVersion(text: string | undefined): IdentityOptions['mcpVersion'] {
  if (text === undefined || text === '2026-07-28' || text === '2025-11-25') return text
  throw new UsageError('Give --mcp-version as 2026-07-28 or 2025-11-25.')
}

/** A long value may be in a file: `@path`. */
async function readMaybeFile(value: string | undefined): Promise<string | undefined> {
  return value?.startsWith('@') ? (await readInput(value.slice(1))).toString('utf8').trim() : value
}

async function readInput(path: string): Promise<Buffer> {
  return readFile(path).catch((cause: unknown) => {
    throw new UsageError(`${path} cannot be read.`, { cause })
  })
}

function keyPath(common: CommonOptions): string {
  return resolve(fromHome(common.key ?? readClientConfig().agentKey))
}

function storePath(common: CommonOptions): string {
  return resolve(fromHome(common.store ?? readClientConfig().agentStore))
}

function wholeNumber(value: string): number {
  if (!/^\d{1,9}$/.test(value)) throw new UsageError(`Give a whole number of seconds, not ${value}.`)
  return Number(value)
}

/** Ctrl-C gives the call up; a request that waits for the owner continues to wait. */
function interruptible(): { signal: AbortSignal; done: () => void } {
  const stop = new AbortController()
  return { signal: stop.signal, done: untilEnding(() => stop.abort()) }
}

const USAGE_CODES = new Set(['request_invalid', 'address_refused', 'introduction_failed'])

function endingOf(error: unknown): CommandEnd | undefined {
  if (error instanceof ConfigFault) return { code: EXIT.usage, message: error.message.split('\n') }
  if (error instanceof Refusal) return { code: EXIT.usage, message: error.message }
  if (!(error instanceof AgentError)) return undefined
  const message = `${error.code}: ${error.detail}`
  if (error.code === 'aborted') return { code: EXIT.interrupted, message }
  if (error.code === 'waiting_timed_out') return { code: EXIT.waiting, message }
  if (!error.terminal) return { code: EXIT.unavailable, message }
  return { code: error.local && USAGE_CODES.has(error.code) ? EXIT.usage : EXIT.refused, message }
}
