/**
 * Owns the subcommands of `usher owner` about the agents she knows: `connections`, `label`, `revoke`, `block`
 * and `unblock`. Contract: "Owner API" (connections, operators).
 */
import type { Command } from 'commander'
import { readAll } from '../../client/exchange.ts'
import { printable } from '../../terminal/printable.ts'
import { namedAgent } from '../display/labels.ts'
import { claimedNamesOfAgents, NO_CLAIMED_NAMES } from '../display/own-words.ts'
import { tell, type OwnerAction, type OwnerSession } from '../session.ts'
import * as show from '../display/show.ts'

const AGENT = [
  '<agent>',
  'the agent, as `connections` names it: its handle, the beginning of that, or your name for it',
] as const
const AGENT_OR_OPERATOR = [
  '<agent>',
  'as `connections` names it (the beginning of its handle or your name for it will do), or an operator, as https://operator.example',
] as const

/** Adds them. `onOperator` acts on an operator, which `block` and `unblock` take as well. */
export function addAgentCommands(
  program: Command,
  action: OwnerAction,
  onOperator: (session: OwnerSession, verb: string, origin: string) => Promise<void>,
): void {
  program
    .command('connections')
    .description('the agents you know, and what they may')
    .action(action(connections))
  program
    .command('revoke')
    .argument(...AGENT)
    .description('end a connection and every grant under it, now; the agent may ask again')
    .action(action(revoke))
  for (const [verb, says] of [
    [
      'block',
      'end the access of an agent, or of every agent of an operator, and refuse what they ask from now on',
    ],
    ['unblock', 'let them ask again; access that was ended stays ended'],
  ] as const)
    program
      .command(verb)
      .argument(...AGENT_OR_OPERATOR)
      .description(says)
      .action(
        action((session, name: string) =>
          isOrigin(name) ? onOperator(session, verb, name) : standing(session, verb, name),
        ),
      )
  program
    .command('label')
    .argument(...AGENT)
    .argument('[text]', 'your name for it, 1 to 60 characters; left out, the name is removed')
    .description('call an agent by a name of your own, in your lists and nowhere else')
    .action(action(label))
}

function isOrigin(name: string): boolean {
  return /^https?:\/\//.test(name)
}

async function connections(session: OwnerSession): Promise<void> {
  const all = await readAll(session.client.connections())
  const claims = session.json ? NO_CLAIMED_NAMES : await claimedNamesOfAgents(session.client, all)
  tell(session, all, (agents, columns) => show.connectionTable(agents, columns, claims))
}

async function label(session: OwnerSession, name: string, text?: string): Promise<void> {
  const labelled = await namedAgent(session, name, handle => session.client.label(handle, text ?? null))
  tell(session, labelled, one => `${show.labelText({ ...one })}.\n`)
}

async function revoke(session: OwnerSession, name: string): Promise<void> {
  const revoked = await namedAgent(session, name, handle => session.client.revoke(handle))
  tell(session, revoked, one => show.revokedSentence(one) + MAY_ASK_AGAIN)
}

const MAY_ASK_AGAIN = 'It may ask you again; `usher owner block` keeps it from that.\n'

async function standing(session: OwnerSession, verb: 'block' | 'unblock', name: string): Promise<void> {
  const { client } = session
  const done = await namedAgent(session, name, handle => client.standing(handle, verb), { waiting: true })
  tell(session, done, one => {
    const who = printable(one.handle)
    return one.blocked
      ? show.revokedSentence({ ...one, status: 'blocked' })
      : `${who} may ask you again. That alone gives it no access.\n`
  })
}
