/**
 * Owns the subcommands of `usher owner` about what she holds with others. Contract: "Tally for a jointly held
 * resource" (on each holder's authorization server): what a mandate would commit her to is read first, and
 * only exactly that is agreed to.
 */
import type { Command } from 'commander'
import { printable, printableTime, table } from '../../terminal/printable.ts'
import { isJsonObject, type JsonObject } from '../../wire/json.ts'
import { ask, objects, shown, texts } from '../display/answers.ts'
import { quoted } from '../organization-entry.ts'
import { tell, type OwnerAction, type OwnerSession } from '../session.ts'
import { waitingSentence } from '../display/show.ts'

const ACCOUNT = ['<account>', 'its name, as the people who run the account told you'] as const
const TALLY = ['--tally <issuer>', 'the tally that counts for it'] as const

interface TallyOption {
  tally: string
}

/** Adds `joint preview`, `agree`, `list`, `calls` and `leave`. */
export function addJointCommands(program: Command, action: OwnerAction): void {
  const joint = program
    .command('joint')
    .description('what you hold together with others: who is asked, and how many must agree')
  joint
    .command('preview')
    .argument(...ACCOUNT)
    .requiredOption(...TALLY)
    .description('show what its mandate would commit you to; changes nothing')
    .action(
      action(async (session, account: string, { tally }: TallyOption) => {
        const body = { tally, account }
        const previewed = await ask(session, { method: 'POST', path: '/owner/joint/preview', body })
        tell(session, previewed, one => previewText(one, { account, tally }))
      }),
    )
  joint
    .command('agree')
    .argument(...ACCOUNT)
    .requiredOption(...TALLY)
    .requiredOption('--mandate <s256>', 'the digest of the mandate that you read, as `preview` showed it')
    .description('hold it with the others, under exactly what `preview` showed')
    .action(
      action(async (session, account: string, { tally, mandate }: TallyOption & { mandate: string }) => {
        const body = { tally, account, agreed: true, mandate_s256: mandate }
        tell(session, await ask(session, { method: 'POST', path: '/owner/joint', body }), agreedText)
      }),
    )
  joint
    .command('list')
    .description('what you hold jointly, with whom, and by which rule')
    .action(action(list))
  joint
    .command('calls')
    .argument('<account>', 'its name, as `list` shows it')
    .option('--before <n>', 'those before this one')
    .description('the calls made there, whichever of you allowed them: the newest first')
    .action(
      action(async (session, account: string, { before }: { before?: string }) => {
        const path = `/owner/joint/${encodeURIComponent(account)}/accesses`
        tell(session, await ask(session, { method: 'GET', path, query: { before } }), callsText)
      }),
    )
  joint
    .command('leave')
    .argument('<account>', 'its name, as `list` shows it')
    .description('leave it at once; your terms stay as they are')
    .action(
      action(async (session, account: string) => {
        const path = `/owner/joint/${encodeURIComponent(account)}`
        tell(session, await ask(session, { method: 'DELETE', path }), leftText)
      }),
    )
}

async function list(session: OwnerSession): Promise<void> {
  tell(session, await ask(session, { method: 'GET', path: '/owner/joint' }), listText)
}

function previewText(one: JsonObject, { account, tally }: TallyOption & { account: string }): string {
  const words = `${quoted(account)} --tally ${quoted(tally)} --mandate ${quoted(textOf(one, 'mandate_s256'))}`
  return [
    ...texts(one['summary']),
    ...termsLines(one),
    `To agree to exactly this: usher owner joint agree ${printable(words)}`,
    '',
  ].join('\n')
}

function agreedText(one: JsonObject): string {
  return ['You hold it from now on:', ...indented(texts(one['summary'])), ...termsLines(one), ''].join('\n')
}

/** Her terms over what it covers; a tally counts a holder without any as refusing. */
function termsLines(one: JsonObject): string[] {
  const terms = objects(one['my_terms'])
  if (terms.length === 0)
    return ['You have no terms over it: until a tier of yours governs it, you count as refusing.']
  return [
    'Your terms over it, which stay as they are:',
    ...terms.map(tier => `  ${shown(tier['tier'])}: ${texts(tier['resources']).join(', ')}; ${within(tier)}`),
  ]
}

function within(tier: JsonObject): string {
  const terms = objectIn(tier, 'terms')
  const { scope, expires_in, prohibited } = terms
  const not = texts(prohibited)
  return `${texts(scope).join(', ')} for ${shown(expires_in)} s${not.length === 0 ? '' : `, not for: ${not.join(', ')}`}`
}

function listText(one: JsonObject): string {
  const accounts = objects(one['accounts'])
  if (accounts.length === 0) return 'You hold nothing together with others.\n'
  return accounts.map(accountText).join('\n')
}

function accountText(one: JsonObject): string {
  const rule = objectIn(one, 'rule')
  const holders = objects(one['holders']).map(
    ({ owner, issuer, weight }) => `  ${shown(owner)} at ${shown(issuer)}, weight ${shown(weight)}`,
  )
  return [
    `${shown(one['account'])}, by the tally ${shown(one['tally'])}, since ${printableTime(textOf(one, 'since'))}`,
    ...holders,
    `  it takes weight ${shown(rule['threshold'])} of ${shown(rule['total_weight'])} (${shown(rule['kind'])}), over ${texts(one['resources']).join(', ')}`,
    `  mandate ${shown(one['mandate_s256'])}`,
    ...(one['state'] === 'mandate_changed'
      ? [
          '  Its tally serves another mandate by now: you answer nothing until you agree to that. To read it:',
          `  usher owner joint preview ${printable(quoted(textOf(one, 'account')))} --tally ${printable(quoted(textOf(one, 'tally')))}`,
        ]
      : []),
    '',
  ].join('\n')
}

/** One line a call, as the tally tells it. */
function callsText(one: JsonObject): string {
  const calls = objects(one['accesses'])
  const rows = calls.map(({ n, at, tool, resource_id, agent, summary }) => [
    shown(n),
    printableTime(typeof at === 'string' ? at : ''),
    shown(tool),
    shown(resource_id ?? ''),
    shown(agent ?? ''),
    shown(summary ?? ''),
  ])
  const { next } = one
  const more = typeof next === 'number' ? `There are more: --before ${next}\n` : ''
  if (rows.length === 0) return 'Nothing was called there.\n'
  return table(['n', 'when', 'tool', 'resource', 'agent', 'what'], rows) + more
}

function leftText(one: JsonObject): string {
  return `You hold ${shown(one['left'])} no more; your terms stay.\n${waitingSentence(one)}`
}

function indented(lines: readonly string[]): string[] {
  return lines.map(line => `  ${line}`)
}

function textOf(one: JsonObject, name: string): string {
  const value = one[name]
  return typeof value === 'string' ? value : ''
}

function objectIn(one: JsonObject, name: string): JsonObject {
  const value = one[name]
  return isJsonObject(value) ? value : {}
}
