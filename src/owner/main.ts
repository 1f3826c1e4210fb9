/**
 * Owns `usher owner`: the owner API from a command line. Contract: "Owner API". Tables for people, `--json`
 * for scripts; what strangers wrote is escaped before it reaches the terminal.
 */
import { hostname } from 'node:os'
import type { Command } from 'commander'
import { ApiError } from '../client/api-error.ts'
import { readAll } from '../client/exchange.ts'
import { named, nameOf } from '../client/names.ts'
import { apiEnding, createProgram, wholeNumber, type ClientSettings } from '../client/program.ts'
import { readClientConfig } from '../config.ts'
import { processTerminal, runCommand, type Terminal } from '../terminal/command.ts'
import { printable } from '../terminal/printable.ts'
import { createOwnerClient } from './client.ts'
import { addCredentialCommands } from './credential-commands.ts'
import { addLedger } from './ledger-command.ts'
import { addOrganizationCommands } from './organization-commands.ts'
import { addPolicyCommands } from './policy-commands.ts'
import { addReceipts } from './receipt-commands.ts'
import { addServerCommands } from './server-commands.ts'
import { tell, type Action, type Session } from './session.ts'
import * as show from './show.ts'
import { watch } from './watch.ts'

/** Runs `usher owner` with the arguments after it. Answers the exit code (see `terminal/command.ts`). */
export function runOwner(args: readonly string[], terminal: Terminal = processTerminal): Promise<number> {
  const program = ownerCommand(terminal)
  return runCommand(program, args, terminal, error =>
    apiEnding(error, { asJson: program.opts<{ json?: boolean }>().json === true }),
  )
}

function ownerCommand(terminal: Terminal): Command {
  const {
    command: program,
    action,
    actionWithNewKey,
  } = createProgram(
    {
      name: 'usher owner',
      description:
        'Decide for yourself: what waits, who may, what they did. With your device key, or a token of your realm.',
      called: 'the owner API',
      party: 'the authority',
      prefix: 'UMA_OWNER',
      power: 'decides as you',
      settings,
      connect: createOwnerClient,
    },
    terminal,
  )
  addEnrol(program, actionWithNewKey)
  addCredentialCommands(program, action)
  program
    .command('pending')
    .argument('[family]', 'one request, with everything known about it')
    .description('what waits for your decision')
    .action(action(pending))
  for (const [name, decision] of [
    ['approve', 'approved'],
    ['deny', 'denied'],
  ] as const) {
    program
      .command(name)
      .argument('<family>', 'the request, as `pending` names it; the beginning of its name will do')
      .description(`${name} one request`)
      .action(action((session, family: string) => decide(session, family, decision)))
  }
  addConnectionCommands(program, action)
  program.command('policies').description('your tiers and their terms').action(action(policies))
  program
    .command('resources')
    .description('what you own here, and which tier governs it')
    .action(action(resources))
  addPolicyCommands(program, action)
  addServerCommands(program, action)
  addOrganizationCommands(program, action)
  addLedger(program, action, wholeNumber)
  addReceipts(program, action, wholeNumber)
  program
    .command('watch')
    .option('--after <id>', 'resume after this event')
    .description('what happens, as it happens; ends with Ctrl-C')
    .action(action(watch))
  return program
}

function addConnectionCommands(program: Command, action: Action): void {
  program
    .command('connections')
    .description('the agents you know, and what they may')
    .action(action(connections))
  program
    .command('revoke')
    .argument('<handle>', 'the agent, as `connections` names it; the beginning of its handle will do')
    .description('end a connection and every grant under it, now')
    .action(action(revoke))
  program
    .command('label')
    .argument('<handle>', 'the agent, as `connections` names it; the beginning of its handle will do')
    .argument('[text]', 'what you call it, 1 to 60 characters; left out, it is called nothing again')
    .description('call an agent by a name of your own, in your lists and nowhere else')
    .action(action(label))
}

function settings(): ClientSettings {
  const { ownerIssuer: issuer, ownerApi: api, ownerToken: token, ownerKey: key } = readClientConfig()
  return { issuer, api, token, key }
}

function addEnrol(program: Command, action: Action): void {
  program
    .command('enrol')
    .requiredOption('--code <code>', 'the one-time code that the operator of the authority gave you')
    .option('--name <name>', 'what you call this credential', hostname())
    .description(
      'enrol your first credential: the key of this machine, made where there is none, or the token',
    )
    .action(
      action(async (session, enrolment: { code: string; name: string }) => {
        const enrolled = await session.client.enrol(enrolment)
        tell(
          session,
          enrolled,
          ({ name, owner }) => `${printable(name)} decides for ${printable(owner)} now.\n`,
        )
      }),
    )
}

async function pending(session: Session, given?: string): Promise<void> {
  const items = await readAll(session.client.pending())
  if (given === undefined) return tell(session, items, show.pendingTable)
  const family = nameOf(
    given,
    items.map(item => item.family),
  )
  const wanted = items.find(item => item.family === family)
  if (wanted === undefined)
    throw new ApiError('not_found', `Nothing of the name ${given} waits for you.`, { status: 404 })
  tell(session, wanted, show.pendingDetails)
}

async function decide(session: Session, given: string, decision: 'approved' | 'denied'): Promise<void> {
  const { client } = session
  const decided = await named(
    given,
    family => client.decide(family, decision),
    async () => (await readAll(client.pending())).map(({ family }) => family),
  )
  tell(session, decided, one => `${printable(one.family)} ${printable(one.decision)}.\n`)
}

async function connections(session: Session): Promise<void> {
  tell(session, await readAll(session.client.connections()), show.connectionTable)
}

async function label(session: Session, given: string, text?: string): Promise<void> {
  const { client } = session
  const labelled = await named(
    given,
    handle => client.label(handle, text ?? null),
    async () => (await readAll(client.connections())).map(({ handle }) => handle),
  )
  tell(session, labelled, one => `${show.labelText({ ...one })}.\n`)
}

async function revoke(session: Session, given: string): Promise<void> {
  const { client } = session
  const revoked = await named(
    given,
    handle => client.revoke(handle),
    async () => (await readAll(client.connections())).map(({ handle }) => handle),
  )
  tell(session, revoked, show.revokedSentence)
}

async function policies(session: Session): Promise<void> {
  tell(session, { tiers: await session.client.policies() }, ({ tiers }, columns) =>
    show.tierTable(tiers, columns),
  )
}

async function resources(session: Session): Promise<void> {
  tell(session, await readAll(session.client.resources()), show.resourceTable)
}
