/**
 * Owns the subcommands of `usher owner` about resource servers. contract, "Owner API" (`/owner/resource-servers*`): who may ask
 * about her grants is hers to approve and to withdraw.
 */
import type { Command } from 'commander'
import { printable, printableJson } from '../terminal/printable.ts'
import { readAll, type OwnerClient } from './client.ts'
import * as show from './show.ts'

/** What a subcommand of this file works with. */
export interface CommandSession {
  client: Pick<OwnerClient, 'resourceServers' | 'decideServer'>
  terminal: { out(text: string): void }
  json: boolean
}

type Action = <A extends unknown[]>(
  run: (session: CommandSession, ...args: A) => Promise<void>,
) => (...args: A) => Promise<void>

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

async function servers(session: CommandSession): Promise<void> {
  const list = await readAll(session.client.resourceServers())
  if (session.json) return session.terminal.out(`${printableJson(list)}\n`)
  session.terminal.out(show.resourceServerTable(list))
}

async function decide(
  session: CommandSession,
  clientId: string,
  decision: 'approved' | 'revoked',
): Promise<void> {
  const decided = await session.client.decideServer(clientId, decision)
  if (session.json) return session.terminal.out(`${printableJson(decided)}\n`)
  session.terminal.out(`${printable(decided.client_id)} is ${printable(decided.status)}.\n`)
}
