/**
 * Owns the subcommands of `usher owner` about an organization. Contract: "Organization membership, on the
 * member's authorization server": what a code would commit her to is read first, and only exactly that is
 * agreed to.
 */
import type { Command } from 'commander'
import { UsageError } from '../terminal/command.ts'
import { printable, printableTime } from '../terminal/printable.ts'
import { isJsonObject, type Json, type JsonObject } from '../wire/json.ts'
import { ApiError } from '../client/api-error.ts'
import { tell, type Action, type Session } from './session.ts'
import type { ApiRequest } from '../client/signed-fetch.ts'

const PATH = '/owner/organization'
const ISSUER = ['--organization <issuer>', 'which organization, where there are several'] as const

interface JoinOptions {
  organization?: string
  charter: string
  binds: string
  administratorsMay?: string
}

/** Adds `organization show`, `preview`, `join`, `agree`, `decline` and `leave`. */
export function addOrganizationCommands(program: Command, action: Action): void {
  const organization = program
    .command('organization')
    .description('the organization that you administer resources for: what it may, and what it cannot')
  organization
    .command('show')
    .description('your membership, what is shared with you, and what the ceiling does')
    .action(
      action(async session => tell(session, await ask(session, { method: 'GET', path: PATH }), standingText)),
    )
  organization
    .command('preview')
    .argument('<code>', 'the code that the organization gave you')
    .option(...ISSUER)
    .description('what joining by a code would commit you to and change; does nothing')
    .action(
      action(async (session, code: string, { organization: issuer }: { organization?: string }) => {
        const body = { code, ...(issuer === undefined ? {} : { issuer }) }
        const previewed = await ask(session, { method: 'POST', path: `${PATH}/preview`, body })
        tell(session, previewed, one => previewText(one, code))
      }),
    )
  for (const [name, hasCode, says] of [
    ['join', true, 'join, agreeing to what `preview` showed and to nothing else'],
    ['agree', false, 'agree to a later version, which `show` says is waiting'],
  ] as const) {
    const command = organization
      .command(name)
      .requiredOption('--charter <version>', 'the version of the charter that you read')
      .requiredOption('--binds <s256>', 'the digest of what binds you, as it was shown')
      .description(says)
    const run = async (session: Session, code: string | undefined, options: JoinOptions): Promise<void> => {
      const joined = await ask(session, { method: 'POST', path: PATH, body: joinBody(code, options) })
      tell(session, joined, standingText)
    }
    if (hasCode)
      command
        .argument('<code>', 'the code that the organization gave you')
        .option(...ISSUER)
        .option(
          '--administrators-may <powers>',
          'what you leave its administrators: some of approve,revoke,restore,block,unblock, or none; all when left out',
        )
        .action(action(run))
    else command.action(action((session, options: JoinOptions) => run(session, undefined, options)))
  }
  organization
    .command('decline')
    .option(...ISSUER)
    .description('refuse an invitation; the organization is told')
    .action(
      action(async (session, { organization: issuer }: { organization?: string }) => {
        const body = issuer === undefined ? {} : { issuer }
        const declined = await ask(session, { method: 'POST', path: `${PATH}/decline`, body })
        tell(session, declined, () => 'Declined.\n')
      }),
    )
  organization
    .command('leave')
    .description('take back what it reaches, at once; your narrowed terms stay as they are')
    .action(
      action(async session =>
        tell(session, await ask(session, { method: 'DELETE', path: PATH }), () => 'You have left.\n'),
      ),
    )
}

async function ask(session: Session, request: ApiRequest): Promise<JsonObject> {
  const answer = await session.client.ask(request)
  if (isJsonObject(answer)) return answer
  throw new ApiError('server_error', 'The authority gave no usable answer.')
}

function joinBody(code: string | undefined, options: JoinOptions): JsonObject {
  const { charter, binds, organization: issuer, administratorsMay } = options
  if (!/^\d{1,9}$/.test(charter)) throw new UsageError('Give the version of the charter as a number.')
  return {
    agreed: true,
    charter_version: Number(charter),
    binds_s256: binds,
    ...(code === undefined ? {} : { code }),
    ...(issuer === undefined ? {} : { issuer }),
    ...(administratorsMay === undefined
      ? {}
      : { administrators_may: administratorsMay === 'none' ? [] : administratorsMay.split(',') }),
  }
}

function texts(value: Json | undefined): string[] {
  return Array.isArray(value) ? value.map(shown) : []
}

function shown(value: Json | undefined): string {
  return printable(typeof value === 'string' ? value : JSON.stringify(value ?? null))
}

function previewText(one: JsonObject, code: string): string {
  const changes = Array.isArray(one['changes']) ? one['changes'].filter(isJsonObject) : []
  return [
    `${shown(one['name'])}: ${shown(one['charter_name'])}, version ${shown(one['charter_version'])}.`,
    ...texts(one['summary']).map(line => `  ${line}`),
    changes.length === 0 ? 'Your terms stay as they are.' : 'Your terms would change:',
    ...changes.map(change => `  ${shown(change['tier_name'])}: ${shown(change['text'])}`),
    `To agree to exactly this: usher owner organization join ${printable(code)} --charter ${shown(one['charter_version'])} --binds ${shown(one['binds_s256'])}`,
    '',
  ].join('\n')
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
    ...texts(one['summary']).map(line => `  ${line}`),
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
