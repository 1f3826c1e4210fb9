/**
 * Owns the subcommands of `usher admin` about agents of members: what waits, which agents are let in, and
 * operators, as far as they reach what the organization governs. Contract: "The organization's authority"
 * (`/admin/...`), "Organization membership, on the member's authorization server". Text from agents is shown
 * as their claim.
 */
import type { Command } from 'commander'
import { readAll } from '../client/exchange.ts'
import { named, nameOf } from '../client/names.ts'
import { wholeNumber } from '../client/program.ts'
import { UsageError } from '../terminal/command.ts'
import { printable, printableTime, printableValue, record, table } from '../terminal/printable.ts'
import { isJsonObject, type JsonObject } from '../wire/json.ts'
import { memberOf } from './member-commands.ts'
import { tell, type AdminAction } from './session.ts'

/**
 * Adds `pending`, `connections` and `operators`: the list of each, and what is done to its items; and
 * `ledger`.
 */
export function addAgentCommands(program: Command, action: AdminAction): void {
  addPending(program, action)
  addNoun(program, action, {
    noun: 'connections',
    one: 'handle',
    about: 'agents of a member that reach what the organization governs',
    columns: ['handle', 'status', 'identity', 'first_used', 'last_used', 'resources'],
    acts: {
      revoke: 'end the reach of an agent on what the organization governs, now',
      restore: 'let such an agent ask again; no grant comes back',
    },
  })
  addNoun(program, action, {
    noun: 'operators',
    one: 'origin',
    about: 'operators of those agents',
    columns: ['origin', 'agents', 'blocked'],
    acts: {
      block: 'end the reach of all agents of an operator, now',
      unblock: 'let its agents ask again; no grant comes back',
    },
  })
  addLedger(program, action)
}

function addLedger(program: Command, action: AdminAction): void {
  program
    .command('ledger')
    .argument('<owner>', 'the member')
    .option('--after <seq>', 'only entries after this number', wholeNumber)
    .option('--limit <number>', 'maximum number of entries', wholeNumber)
    .description('what happened at a member to what the organization governs, oldest first')
    .action(
      action(async (session, owner: string, query: { after?: number; limit?: number }) =>
        tell(session, await readAll(session.client.ledger(owner, query)), ledgerTable),
      ),
    )
}

function addPending(program: Command, action: AdminAction): void {
  const pending = program
    .command('pending')
    .description('requests for what the organization governs that wait for a member')
  pending
    .command('list')
    .argument('<owner>', 'the member')
    .description('what waits, oldest first')
    .action(
      action(async (session, owner: string) =>
        tell(session, await readAll(session.client.agents(owner, 'pending')), pendingTable),
      ),
    )
  pending
    .command('show')
    .argument('<owner>', 'the member')
    .argument('<family>', 'the request, as `list` names it; the beginning of its name will do')
    .description('one request, whole')
    .action(
      action(async (session, owner: string, family: string) => {
        const items = await readAll(session.client.agents(owner, 'pending'))
        const name = nameOf(family, namesOf(items, 'family'))
        const item = items.find(one => one['family'] === name)
        if (item === undefined) throw new UsageError(`Nothing that you may see waits under ${family}.`)
        tell(session, item, one => pendingDetails(owner, one))
      }),
    )
  for (const [word, decision] of [
    ['approve', 'approved'],
    ['deny', 'denied'],
  ] as const)
    pending
      .command(word)
      .argument('<owner>', 'the member')
      .argument('<family>', 'the request, as `list` names it; the beginning of its name will do')
      .description(
        word === 'deny'
          ? 'refuse a request; she sees that you did'
          : 'let a request pass, if she left you that; she sees that you did',
      )
      .action(
        action(async (session, owner: string, input: string) => {
          const { client } = session
          const path = (family: string): string =>
            `${memberOf(owner)}/pending/${encodeURIComponent(family)}/decision`
          const decided = await named(
            input,
            family => client.ask({ method: 'POST', path: path(family), body: { decision } }),
            async () => namesOf(await readAll(client.agents(owner, 'pending')), 'family'),
          )
          tell(
            session,
            decided,
            one => `${printableValue(one['family'])} is ${printableValue(one['decision'])}.\n`,
          )
        }),
      )
}

/** One of the lists, and the acts on its items. */
interface Noun {
  noun: 'connections' | 'operators'
  /** The name of one of them, in bodies. */
  one: string
  about: string
  columns: readonly string[]
  acts: Readonly<Record<string, string>>
}

function addNoun(program: Command, action: AdminAction, { noun, one, about, columns, acts }: Noun): void {
  const group = program.command(noun).description(about)
  group
    .command('list')
    .argument('<owner>', 'the member')
    .description(`${about}, by ${one}`)
    .action(
      action(async (session, owner: string) => {
        const found = await readAll(session.client.agents(owner, noun))
        tell(session, found, (items, width) =>
          items.length === 0
            ? 'None reaches what the organization governs.\n'
            : table(
                columns.map(name => name.replace('_', ' ')),
                items.map(item => columns.map(name => cell(name, item[name]))),
                width,
              ),
        )
      }),
    )
  for (const [word, says] of Object.entries(acts))
    group
      .command(word)
      .argument('<owner>', 'the member')
      .argument(`<${one}>`, `as \`list\` names it; the beginning of that will do`)
      .description(says)
      .action(
        action(async (session, owner: string, input: string) => {
          const { client } = session
          const path = `${memberOf(owner)}/${noun}/${word}`
          const done = await named(
            input,
            async name => ({
              name,
              answer: await client.ask({ method: 'POST', path, body: { [one]: name } }),
            }),
            async () => namesOf(await readAll(client.agents(owner, noun)), one),
          )
          tell(session, done.answer, () => doneSentence(word, done.name))
        }),
      )
}

/** The name of the items of a list. */
function namesOf(items: readonly JsonObject[], member: string): string[] {
  return items.flatMap(item => (typeof item[member] === 'string' ? [item[member]] : []))
}

const DONE: Readonly<Record<string, string>> = {
  revoke: 'no longer reaches what the organization governs; what is hers alone is untouched',
  restore: 'may ask again; no grant came back',
  block: 'is blocked: its agents reach nothing more that the organization governs',
  unblock: 'is blocked no more; no grant came back',
}

function doneSentence(word: string, name: string): string {
  return `${printable(name)} ${DONE[word]!}.\n`
}

function cell(name: string, value: unknown): unknown {
  return name.endsWith('_used') ? printableTime(value) : value
}

function pendingTable(items: JsonObject[], columns?: number): string {
  if (items.length === 0) return 'Nothing waits.\n'
  const rows = items.map(one => [
    one['family'],
    one['kind'],
    one['resource_id'],
    subjectOf(one),
    one['handle'],
    printableTime(one['requested_at']),
  ])
  return table(['family', 'kind', 'resource', 'wants', 'agent', 'since'], rows, columns)
}

function ledgerTable(entries: JsonObject[], columns?: number): string {
  if (entries.length === 0) return 'Nothing happened to what the organization governs.\n'
  const rows = entries.map(one => [
    one['seq'],
    printableTime(one['ts']),
    [one['kind'], one['what'] ?? one['effect']]
      .filter(word => word !== undefined)
      .map(printableValue)
      .join(' '),
    one['resource_id'],
    one['tool'],
    one['handle'] ?? one['operator'],
    actorText(one),
  ])
  return table(['seq', 'when', 'what', 'resource', 'tool', 'agent', 'by'], rows, columns)
}

/** Who did it: the administrator by name, or the word for anybody else. */
function actorText({ actor, by }: JsonObject): unknown {
  return isJsonObject(actor) ? (actor['admin'] ?? actor['kind']) : by
}

/** The operation as a call, or the purpose of the terms. */
function subjectOf({ operation, purpose }: JsonObject): unknown {
  return isJsonObject(operation)
    ? `${printableValue(operation['tool'])} ${JSON.stringify(operation['params'] ?? {})}`
    : purpose
}

/** What the agent says of itself, below the facts: as her server shows it, and nobody has checked it. */
function ownWords({ reason, mission }: JsonObject): string {
  if (reason === undefined && mission === undefined) return ''
  const words = record({ 'says why': reason, mission }, '  ')
  return `\nIn the agent's own words as her server shows them, which nobody has checked:\n${words}`
}

function pendingDetails(owner: string, item: JsonObject): string {
  const identity = isJsonObject(item['identity']) ? item['identity'] : {}
  const { binding, provenance, accountability } = isJsonObject(item['assurance']) ? item['assurance'] : {}
  const named = `${printable(owner)} ${printableValue(item['family'])}`
  return (
    record({
      family: item['family'],
      kind: item['kind'] === 'connection' ? 'connection (an agent she does not know)' : 'operation',
      agent: item['handle'],
      identity: identity['kind'],
      operator: identity['operator'],
      resource: item['resource_id'],
      wants: subjectOf(item),
      prohibited: item['prohibited'],
      lasts: `${printableValue(item['expires_in'])} s`,
      since: printableTime(item['requested_at']),
      assurance: `binding ${printableValue(binding)}, provenance ${printableValue(provenance)}, accountability ${printableValue(accountability)}`,
    }) +
    ownWords(item) +
    `\nusher admin pending approve ${named}\nusher admin pending deny ${named}\n`
  )
}
