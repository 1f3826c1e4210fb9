/**
 * Owns the subcommands of `usher owner` about resource servers. contract, "Owner API" (`/owner/resource-servers*`): who may ask
 * about her grants is hers to approve and to withdraw.
 */
import type { Command } from 'commander'
import { printable } from '../terminal/printable.ts'
import { readAll } from '../client/exchange.ts'
import { tell, type Action, type Session } from './session.ts'
import * as show from './show.ts'

/** Adds `servers`, `approve-server` and `revoke-server`. */
export function addServerCommands(program: Command, action: Action): void {
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
    ['revoke-server', 'revoked', 'withdraw one: from now on it is told nothing, and no call reaches it'],
  ] as const) {
    program
      .command(name)
      .argument('<client_id>', 'the resource server, as `servers` names it')
      .description(says)
      .action(action((session, clientId: string) => decide(session, clientId, decision)))
  }
}

async function servers(session: Session): Promise<void> {
  tell(session, await readAll(session.client.resourceServers()), show.resourceServerTable)
}

async function decide(session: Session, clientId: string, decision: 'approved' | 'revoked'): Promise<void> {
  tell(
    session,
    await session.client.decideServer(clientId, decision),
    one => `${printable(one.client_id)} is ${printable(one.status)}.\n`,
  )
}
