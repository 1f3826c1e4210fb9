/**
 * Owns the subcommands of `usher owner` about resource servers. Contract: "Owner API"
 * (`/owner/resource-servers*`): she approves and withdraws servers that may ask about her grants, and bans
 * origins that may not even ask to register.
 */
import type { Command } from 'commander'
import { printable } from '../../terminal/printable.ts'
import type { DecidedServer } from '../../wire/owner/owner-api.ts'
import { readAll } from '../../client/exchange.ts'
import { named, namedAll } from '../../client/names.ts'
import { tell, type OwnerAction, type OwnerSession } from '../session.ts'
import * as show from '../display/show.ts'

/** Adds `servers`, `approve-server`, `revoke-server`, `ban-origin`, `unban-origin` and `banned-origins`. */
export function addServerCommands(program: Command, action: OwnerAction): void {
  program
    .command('servers')
    .description('the resource servers that serve you, or wait for your approval')
    .action(action(servers))
  for (const [name, decision, says] of [
    [
      'approve-server',
      'approved',
      'let a resource server ask about your grants; what it publishes is registered',
    ],
    ['revoke-server', 'revoked', 'withdraw one: from now on it gets no answers, and no call reaches it'],
  ] as const) {
    program
      .command(name)
      .argument(
        '<client_id...>',
        'the resource server, as `servers` names it, or several of one origin; the beginning of its name will do',
      )
      .description(says)
      .action(action((session, clientIds: string[]) => decide(session, clientIds, decision)))
  }
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

async function decide(
  session: OwnerSession,
  clientIds: string[],
  decision: 'approved' | 'revoked',
): Promise<void> {
  const { client } = session
  const [clientId, ...others] = clientIds
  const known = async (): Promise<string[]> =>
    (await readAll(client.resourceServers())).map(({ client_id }) => client_id)
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
