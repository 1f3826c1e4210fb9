/**
 * Owns `usher owner`: the owner API from a command line. Contract: "Owner API". Tables for people, `--json`
 * for scripts; what strangers wrote is escaped before it reaches the terminal.
 */
import { hostname } from 'node:os'
import type { Command } from 'commander'
import { ApiError } from '../client/api-error.ts'
import { readAll } from '../client/exchange.ts'
import { named, nameOf, withWholeNames } from '../client/names.ts'
import { apiEnding, createProgram, type ClientPlace, type ClientSettings } from '../client/program.ts'
import { readClientConfig } from '../config.ts'
import { Exit, EXIT, processTerminal, runCommand, UsageError, type Terminal } from '../terminal/command.ts'
import { printable } from '../terminal/printable.ts'
import { writeProfile } from '../terminal/profile-file.ts'
import { AUTHORITY_PATH } from '../wire/names.ts'
import type { DecisionRecord, PendingItem } from '../wire/owner/owner-api.ts'
import { addAllowanceCommands } from './allowances/allowance-commands.ts'
import { createOwnerClient } from './client.ts'
import { addAgentCommands } from './commands/agent-commands.ts'
import { addArchiveCommands } from './commands/archive-commands.ts'
import { addConsole } from './commands/console-command.ts'
import { addCredentialCommands, addKeyExport } from './commands/credential-commands.ts'
import { addJointCommands } from './commands/joint-commands.ts'
import { addLedger } from './commands/ledger-command.ts'
import { addNotificationCommands } from './commands/notification-commands.ts'
import { addOrganizationCommands } from './commands/organization-commands.ts'
import { addPasskeyCommands } from './commands/passkey-commands.ts'
import { actOn, addPolicyCommands } from './commands/policy-commands.ts'
import { addTermsCommand } from './commands/terms-command.ts'
import { addProfile, readCode } from './commands/profile-command.ts'
import { addReceipts } from './commands/receipt-commands.ts'
import { addRevocation } from './commands/revocation-command.ts'
import { addServerCommands } from './commands/server-commands.ts'
import { claimedNamesOf, NO_CLAIMED_NAMES, readOwnWords } from './display/own-words.ts'
import { boundApproval, type BoundBy } from './signed-approval.ts'
import { tell, type OwnerAction, type OwnerSession } from './session.ts'
import { namesOf, NO_NAMES } from './display/labels.ts'
import { approvedText, onlyText, pendingDetails, pendingRecord, type Beside } from './display/show-request.ts'
import * as show from './display/show.ts'
import { watch } from './commands/watch.ts'

/** Runs `usher owner` with the arguments after it. Returns the exit code (see `terminal/command.ts`). */
export function runOwner(args: readonly string[], terminal: Terminal = processTerminal): Promise<number> {
  const program = ownerCommand(terminal)
  return runCommand(program, args, terminal, error =>
    apiEnding(error, { asJson: program.opts<{ json?: boolean }>().json === true }),
  )
}

/** Adds `pending`, `approve` and `deny`. */
function addDecisions(program: Command, action: OwnerAction): void {
  program
    .command('pending')
    .argument('[family]', 'one request, with everything known about it')
    .description('what waits for your decision')
    .action(action(pending))
  const family = [
    '<family>',
    'the request, as `pending` names it; the beginning of its name will do',
  ] as const
  program
    .command('approve')
    .argument(...family)
    .option(
      '--yes',
      'approve unseen and unsigned: nothing is shown, and you are not asked; only with the whole name',
    )
    .option(
      '--only',
      'let a new agent in for this tier alone: at any other you are asked before its first grant; of an operation, approve this call alone, which counts as no approval at its tier',
    )
    .description('approve one request: shows what that opens, and asks; without a terminal only with --yes')
    .action(action(approve))
  program
    .command('deny')
    .argument(...family)
    .option('--reason <text>', 'why, for the agent to read: at most 200 characters')
    .description('deny one request')
    .action(
      action((session, name: string, details: { reason?: string }) =>
        decide(session, name, 'denied', details),
      ),
    )
}

function ownerCommand(terminal: Terminal): Command {
  const {
    command: program,
    key,
    ownKey,
    action,
    actionWithNewKey,
    place,
  } = createProgram(
    {
      name: 'usher owner',
      description:
        'Decide about your resources: what waits for you, who may use them, what they did. You sign with your device key, or send a token of your realm.',
      called: 'the owner API',
      party: 'the authority',
      prefix: 'UMA_OWNER',
      power: 'decides as you',
      settings,
      publishedAs: {
        member: 'owner_endpoint',
        path: AUTHORITY_PATH.owner,
        unserved:
          'Its operator lets /owner lead there to UMA_AS_OWNER_LISTEN, or names in UMA_AS_OWNER_URL where it is. If other commands work, its version or its settings lack what this one asks for.',
      },
      profiled: true,
      connect: createOwnerClient,
    },
    terminal,
  )
  addEnrol(program, actionWithNewKey, { place, terminal })
  addProfile(program, place, terminal)
  addKeyExport(key, ownKey, terminal)
  addCredentialCommands(program, action)
  addPasskeyCommands(program, action)
  addDecisions(program, action)
  addAgentCommands(program, action, actOn)
  program.command('policies').description('your tiers and their terms').action(action(policies))
  program
    .command('resources')
    .description('what you own here, and which tier governs it')
    .action(action(resources))
  addPolicyCommands(program, action)
  addAllowanceCommands(program, action)
  addTermsCommand(program, action)
  addServerCommands(program, action)
  addOrganizationCommands(program, action)
  addJointCommands(program, action)
  addLedger(program, action)
  addReceipts(program, action)
  addRevocation(program, action)
  addArchiveCommands(program, action)
  addNotificationCommands(program, action)
  addConsole(program, action)
  program
    .command('watch')
    .option('--after <id>', 'resume after this event')
    .description('what happens, as it happens; ends with Ctrl-C')
    .action(action(watch))
  return program
}

function settings(): ClientSettings {
  const { ownerIssuer: issuer, ownerApi: api, ownerToken: token, ownerKey: key } = readClientConfig()
  return { issuer, api, token, key }
}

function addEnrol(
  program: Command,
  action: OwnerAction,
  { place, terminal }: { place: () => Promise<ClientPlace>; terminal: Terminal },
): void {
  const runEnrol = action(async (session, enrolment: { code: string; name: string }) => {
    const enrolled = await session.client.enrol(enrolment)
    tell(session, enrolled, ({ name, owner }) => `${printable(name)} decides for ${printable(owner)} now.\n`)
    const { issuer, api, apiFrom, issuerFrom, path } = await place()
    if (issuer === undefined || issuerFrom === 'profile') return
    await writeProfile(path, { issuer, ...(apiFrom === 'metadata' ? {} : { api }) })
    terminal.err(`The commands of this machine ask ${printable(issuer)} from now on (usher owner profile).\n`)
  })
  program
    .command('enrol')
    .requiredOption(
      '--code <code>',
      'the one-time code that the operator of the authority gave you, alone or with @ and the issuer after it',
    )
    .option('--name <name>', 'your name for this credential', hostname())
    .description('enrol your first credential: the key of this machine (made if there is none), or the token')
    // Before the session is opened, so that the issuer in the code counts.
    .hook('preAction', enrol => {
      const { code, issuer } = readCode(enrol.opts<{ code: string }>().code)
      enrol.setOptionValue('code', code)
      if (issuer !== undefined && program.opts<{ issuer?: string }>().issuer === undefined)
        program.setOptionValueWithSource('issuer', issuer, 'cli')
    })
    .action(async (...args: Parameters<typeof runEnrol>) => {
      if ((await place()).issuer === undefined)
        throw new UsageError(
          'The code names no authority. Give all of it, as its operator was shown it (enrol_…@https://as.example.com), or name the authority: --issuer <url> or UMA_OWNER_ISSUER.',
        )
      await runEnrol(...args)
    })
}

async function pending(session: OwnerSession, name?: string): Promise<void> {
  if (name !== undefined) {
    const request = await waitingItem(session, name)
    const beside = await besideOf(session, request)
    return tell(session, request, one => pendingDetails(one, beside))
  }
  const items = await readAll(session.client.pending())
  const names = items.length === 0 ? NO_NAMES : await namesOf(session)
  const claims = session.json ? NO_CLAIMED_NAMES : await claimedNamesOf(session.client, items)
  tell(session, items, (all, columns) => show.pendingTable(all, columns, { names, claims }))
}

/** What a person is shown of a request beside its record; a script is given that alone. */
async function besideOf(session: OwnerSession, { item }: Partial<PendingItem>): Promise<Beside> {
  const words = session.json ? 'unread' : await readOwnWords(session.client, item)
  return { words, names: await namesOf(session) }
}

/** The waiting item with this name, or the only one that begins with it. Fails with `not_found`. */
async function waitingItem({ client }: OwnerSession, name: string): Promise<PendingItem> {
  const items = await readAll(client.pending())
  const family = nameOf(
    name,
    items.map(item => item.family),
  )
  const match = items.find(item => item.family === family)
  if (match === undefined)
    throw new ApiError('not_found', `No request ${name} waits for you. What waits: usher owner pending`, {
      status: 404,
    })
  return match
}

/** A person sees what she opens before she is asked; a script must ask her in its own way. */
async function approve(
  session: OwnerSession,
  name: string,
  { yes = false, only = false }: { yes?: boolean; only?: boolean },
): Promise<void> {
  if (yes) {
    const unseen = (): Promise<DecisionRecord> =>
      session.client.decide(name, 'approved', only ? { only } : {})
    return tellDecision(session, await withWholeNames('usher owner pending', unseen))
  }
  const { confirm } = session.terminal
  // A script that was not told to approve unseen must not: an empty answer would count as a yes.
  if (confirm === undefined || session.json)
    throw new UsageError(
      'Approve at a terminal, which shows what the approval opens and asks you; or add --yes to approve unseen.',
    )
  const item = await waitingItem(session, name)
  session.terminal.err(pendingRecord(item, await besideOf(session, item)) + (only ? onlyText(item) : ''))
  if (!(await confirm(`Approve ${item.family}?`))) {
    session.terminal.err('Nothing was decided. The request still waits.\n')
    throw new Exit(EXIT.refused)
  }
  const now = Math.floor(Date.now() / 1_000)
  await decide(session, item.family, 'approved', boundApproval(session.client.access, item, { now, only }))
  session.terminal.out(approvedText(item, await namesOf(session), only))
}

// oxlint-disable-next-line eslint/max-params -- what is decided about which item, and what is said with it
async function decide(
  session: OwnerSession,
  name: string,
  decision: 'approved' | 'denied',
  details: BoundBy & { reason?: string } = {},
): Promise<void> {
  const { client } = session
  const decided = await named(
    name,
    family => client.decide(family, decision, details),
    async () => (await readAll(client.pending())).map(({ family }) => family),
  )
  tellDecision(session, decided)
}

function tellDecision(session: OwnerSession, decided: DecisionRecord): void {
  tell(session, decided, one => `${printable(one.family)} ${printable(one.decision)}.\n`)
}

async function policies(session: OwnerSession): Promise<void> {
  tell(session, { tiers: await session.client.policies() }, ({ tiers }, columns) =>
    show.tierTable(tiers, columns),
  )
}

async function resources(session: OwnerSession): Promise<void> {
  tell(session, await readAll(session.client.resources()), show.resourceTable)
}
