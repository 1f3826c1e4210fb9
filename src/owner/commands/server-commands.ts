/**
 * Owns the subcommands of `usher owner` about resource servers. Contract: "Owner API"
 * (`/owner/resource-servers*`): she approves and withdraws servers that may ask about her grants, and bans
 * origins that may not even ask to register.
 */
import type { Command } from 'commander'
import { localTime, printable, record } from '../../terminal/printable.ts'
import type { DecidedServer, ResourceServerEntry } from '../../wire/owner/owner-api.ts'
import { ApiError } from '../../client/api-error.ts'
import { readAll } from '../../client/exchange.ts'
import { named, namedAll, nameOf, withWholeNames } from '../../client/names.ts'
import { askForYes, requireAnswer, type YesOption } from '../confirmation.ts'
import { tell, type OwnerAction, type OwnerSession } from '../session.ts'
import * as show from '../display/show.ts'

/** Adds `servers`, `approve-server`, `revoke-server`, `ban-origin`, `unban-origin` and `banned-origins`. */
export function addServerCommands(program: Command, action: OwnerAction): void {
  program
    .command('servers')
    .description('the resource servers that serve you, or wait for your approval')
    .action(action(servers))
  const clientIds = [
    '<client_id...>',
    'the resource server, as `servers` names it, or several of one origin; the beginning of its name will do',
  ] as const
  program
    .command('approve-server')
    .argument(...clientIds)
    .option('--yes', 'approve unseen: nothing is shown, and you are not asked; only with whole names')
    .description(
      'let a resource server ask about your grants, and register what it publishes: shows who it is, and asks; without a terminal only with --yes',
    )
    .action(action(approve))
  program
    .command('revoke-server')
    .argument(...clientIds)
    .description('withdraw one: from now on it gets no answers, and no call reaches it')
    .action(action((session, names: string[]) => decide(session, names, 'revoked')))
  addBans(program, action)
}

function addBans(program: Command, action: OwnerAction): void {
  const origin = ['<origin>', 'such as https://tools.example'] as const
  program
    .command('ban-origin')
    .argument(...origin)
    .description(
      'no resource server of an origin may register with you any more; those that wait are withdrawn',
    )
    .action(action(ban))
  program
    .command('unban-origin')
    .argument(...origin)
    .description('let the resource servers of an origin register again')
    .action(action(unban))
  program
    .command('banned-origins')
    .description('the origins that you have banned')
    .action(action(bannedOrigins))
}

async function servers(session: OwnerSession): Promise<void> {
  tell(session, await readAll(session.client.resourceServers()), show.resourceServerTable)
}

/** A person sees whom she approves before she is asked; a script must ask her in its own way. */
async function approve(session: OwnerSession, names: string[], options: YesOption): Promise<void> {
  requireAnswer(session, options)
  if (options.yes === true)
    return withWholeNames('usher owner servers', () => decide(session, names, 'approved', async () => []))
  const known = await readAll(session.client.resourceServers())
  const chosen = names.map(name => serverOf(name, known))
  const [first, ...others] = chosen.map(({ client_id }) => client_id)
  const question =
    others.length === 0 ? `Approve ${printable(first!)}?` : `Approve these ${chosen.length} resource servers?`
  await askForYes(session, options, { text: approvalText(chosen), question })
  await decide(session, [first!, ...others], 'approved')
}

/** The one with this name, or the only one that begins with it. Fails with `not_found`. */
function serverOf(name: string, known: readonly ResourceServerEntry[]): ResourceServerEntry {
  const client_id = nameOf(
    name,
    known.map(one => one.client_id),
  )
  const server = known.find(one => one.client_id === client_id)
  if (server === undefined)
    throw new ApiError(
      'not_found',
      `You know no resource server ${name}. Which you do: usher owner servers`,
      {
        status: 404,
      },
    )
  return server
}

function approvalText(servers: readonly ResourceServerEntry[]): string {
  const records = servers.map(({ client_id, name, resource_uri, status, auth, registered_at }) =>
    record({
      'resource server': client_id,
      'calls itself': name,
      serves: resource_uri,
      'proves itself by': auth,
      status,
      registered: localTime(registered_at),
    }),
  )
  const [who, its] = servers.length === 1 ? ['it', 'it publishes'] : ['they', 'they publish']
  return `${records.join('\n')}\nFrom then on ${who} may ask about your grants, and what ${its} is registered.\n`
}

/** `known` lists the names that a beginning may stand for: those of all that she knows, if left out. */
async function decide(
  session: OwnerSession,
  clientIds: string[],
  decision: 'approved' | 'revoked',
  known = async (): Promise<string[]> =>
    (await readAll(session.client.resourceServers())).map(({ client_id }) => client_id),
): Promise<void> {
  const { client } = session
  const [clientId, ...others] = clientIds
  if (others.length > 0) {
    const decided = await namedAll(clientIds, all => client.decideServers(all, decision), known)
    return tell(session, decided, stateSentences)
  }
  const one = await named(clientId!, client_id => client.decideServer(client_id, decision), known)
  tell(session, one, server => stateSentences([server]))
}

/** They were decided together, so each of them names the same sidecars. */
function stateSentences(servers: readonly DecidedServer[]): string {
  const states = servers.map(({ client_id, status }) => `${printable(client_id)} is ${printable(status)}.\n`)
  return states.join('') + show.waitingSentence({ leases: servers[0]?.leases })
}

async function ban(session: OwnerSession, origin: string): Promise<void> {
  tell(session, await session.client.banOrigin(origin), banned => {
    const withdrawn = banned.withdrawn.map(client_id => `${printable(client_id)} is revoked.\n`)
    return `${printable(banned.origin)} is banned.\n${withdrawn.join('')}${show.waitingSentence(banned)}`
  })
}

async function unban(session: OwnerSession, origin: string): Promise<void> {
  const { client } = session
  tell(
    session,
    await named(
      origin,
      one => client.unbanOrigin(one),
      async () => (await readAll(client.bannedOrigins())).map(banned => banned.origin),
    ),
    unbanned => `${printable(unbanned.origin)} may register again.\n`,
  )
}

async function bannedOrigins(session: OwnerSession): Promise<void> {
  tell(session, await readAll(session.client.bannedOrigins()), show.bannedOriginTable)
}
