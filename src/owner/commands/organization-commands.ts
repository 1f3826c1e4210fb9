/**
 * Owns the subcommands of `usher owner` about an organization. Contract: "Organization membership, on the
 * member's authorization server": what a code would commit her to is read first, and only exactly that is
 * agreed to.
 */
import type { Command } from 'commander'
import { UsageError } from '../../terminal/command.ts'
import { printable, printableTime } from '../../terminal/printable.ts'
import { isJsonObject, type JsonObject } from '../../wire/json.ts'
import type { StillWaiting } from '../../wire/owner/owner-api.ts'
import { ask, objects, shown, texts } from '../display/answers.ts'
import { tell, type OwnerAction, type OwnerSession } from '../session.ts'
import { CODE, entryWords, IDENTITY_COMMAND, readEntry, type EntryOptions } from '../organization-entry.ts'
import { waitingSentence } from '../display/show.ts'

const ISSUER = ['--organization <issuer>', 'the organization, if there are several'] as const

interface JoinOptions extends EntryOptions {
  charter: string
  binds: string
  administratorsMay?: string
}

/** Adds `organization show`, `preview`, `join`, `agree`, `decline` and `leave`. */
export function addOrganizationCommands(program: Command, action: OwnerAction): void {
  const organization = program
    .command('organization')
    .description('the organization that you administer resources for: what it may, and what it cannot')
  organization
    .command('show')
    .description('your membership, what is shared with you, and what the ceiling does')
    .action(
      action(async session =>
        tell(session, await ask(session, { method: 'GET', path: '/owner/organization' }), standingText),
      ),
    )
  organization
    .command('preview')
    .argument(...CODE)
    .option(...ISSUER)
    .option(...IDENTITY_COMMAND)
    .description('show what joining would commit you to and change; changes nothing')
    .action(action(preview))
  for (const [name, says] of [
    ['join', 'join, agreeing to exactly what `preview` showed'],
    ['agree', 'agree to a later version, which `show` says is waiting'],
  ] as const) {
    const command = organization
      .command(name)
      .requiredOption('--charter <version>', 'the version of the charter that you read')
      .requiredOption('--binds <s256>', 'the digest of what binds you, as it was shown')
      .description(says)
    if (name === 'agree') command.action(action((session, options: JoinOptions) => agree(session, options)))
    else
      command
        .argument(...CODE)
        .option(...ISSUER)
        .option(...IDENTITY_COMMAND)
        .option(
          '--administrators-may <powers>',
          'what you leave its administrators: some of approve,revoke,restore,block,unblock, or none; all when left out',
        )
        .action(
          action((session, code: string | undefined, options: JoinOptions) =>
            agree(session, options, () => readEntry(code, options)),
          ),
        )
  }
  organization
    .command('decline')
    .option(...ISSUER)
    .description('refuse an invitation; the organization is notified')
    .action(
      action(async (session, options: EntryOptions) => {
        const body = issuerIn(options)
        const declined = await ask(session, { method: 'POST', path: '/owner/organization/decline', body })
        tell(session, declined, () => 'Declined.\n')
      }),
    )
  organization
    .command('leave')
    .description('leave it, and end at once what it reaches; your narrowed terms stay as they are')
    .action(
      action(async session =>
        tell(
          session,
          await ask(session, { method: 'DELETE', path: '/owner/organization' }),
          answer => `You have left.\n${waitingSentence(answer as StillWaiting)}`,
        ),
      ),
    )
}

async function preview(
  session: OwnerSession,
  code: string | undefined,
  options: EntryOptions,
): Promise<void> {
  const body = { ...(await readEntry(code, options)), ...issuerIn(options) }
  const previewed = await ask(session, { method: 'POST', path: '/owner/organization/preview', body })
  tell(session, previewed, one => previewText(one, entryWords(code, options)))
}

/** Agrees to exactly what she names; without an entry, to the version that waits. */
async function agree(
  session: OwnerSession,
  options: JoinOptions,
  entry?: () => Promise<JsonObject>,
): Promise<void> {
  const body = { ...agreed(options), ...(await entry?.()), ...issuerIn(options) }
  const agreement = await ask(session, { method: 'POST', path: '/owner/organization', body })
  tell(session, agreement, one => standingText(one) + waitingSentence(one as StillWaiting))
}

function issuerIn({ organization: issuer }: EntryOptions): JsonObject {
  return issuer === undefined ? {} : { issuer }
}

function agreed({ charter, binds, administratorsMay }: JoinOptions): JsonObject {
  if (!/^\d{1,9}$/.test(charter)) throw new UsageError('Give the version of the charter as a number.')
  return {
    agreed: true,
    charter_version: Number(charter),
    binds_s256: binds,
    ...(administratorsMay === undefined
      ? {}
      : { administrators_may: administratorsMay === 'none' ? [] : administratorsMay.split(',') }),
  }
}

function previewText(one: JsonObject, entry: string): string {
  const changes = objects(one['changes'])
  return [
    `${shown(one['name'])}: ${shown(one['charter_name'])}, version ${shown(one['charter_version'])}.`,
    ...meaning(one),
    `It would govern: ${texts(one['governed_resources']).join(', ') || 'nothing of yours'}.`,
    changes.length === 0 ? 'Your terms stay as they are.' : 'Your terms would change:',
    ...changes.map(change => `  ${shown(change['tier_name'])}: ${shown(change['text'])}`),
    `To agree to exactly this: usher owner organization join ${printable(entry)} --charter ${shown(one['charter_version'])} --binds ${shown(one['binds_s256'])}`,
    '',
  ].join('\n')
}

/** What it binds her to, as her authority says it; apart from that, what only the organization says. */
function meaning(one: JsonObject): string[] {
  const own = texts(one['own_words'])
  return [
    ...texts(one['summary']).map(line => `  ${line}`),
    ...(own.length === 0 ? [] : ['In its own words, which nobody has checked:']),
    ...own.map(line => `  ${line}`),
  ]
}

function standingText(one: JsonObject): string {
  if (one['enrolled'] !== true) {
    const available = texts(one['available'])
    const invitation = isJsonObject(one['invitation']) ? one['invitation'] : undefined
    return [
      'You are a member of no organization.',
      ...(available.length === 0 ? [] : [`You may join: ${available.join(', ')}.`]),
      ...(invitation === undefined
        ? []
        : [`${shown(invitation['issuer'])} asks you to join, with the code ${shown(invitation['code'])}.`]),
      ...texts(one['unreachable']).map(issuer => `${issuer} cannot be asked now.`),
      '',
    ].join('\n')
  }
  const waiting = isJsonObject(one['waiting']) ? one['waiting'] : undefined
  return [
    `You are a member of ${shown(one['name'])} (${shown(one['issuer'])}) since ${printableTime(shown(one['joined']))}.`,
    ...meaning(one),
    `It governs: ${texts(one['governed_resources']).join(', ') || 'nothing of yours'}.`,
    `Its administrators may: ${texts(one['administrators_may']).join(', ') || 'nothing'}.`,
    ...(one['stale'] === true
      ? ['It has not been heard for ten minutes: nothing it governs is negotiated now.']
      : []),
    ...(waiting === undefined
      ? []
      : [
          'A later version waits for you:',
          ...texts(waiting['changes']).map(line => `  ${line}`),
          `To agree to it: usher owner organization agree --charter ${shown(waiting['version'])} --binds ${shown(one['binds_s256'])}`,
        ]),
    '',
  ].join('\n')
}
