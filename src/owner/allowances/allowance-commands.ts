/**
 * Owns `usher owner allowance …`: what agents may do at her ask-me tiers without asking her each time.
 * Contract: "Owner API", "Policy vocabulary and tiers"; an addition (docs/details/owner-api.md).
 */
import type { Command } from 'commander'
import { readAll } from '../../client/exchange.ts'
import { yamlText } from '../../client/object-file.ts'
import { tell, type OwnerAction, type OwnerSession } from '../session.ts'
import { addAllowance } from './allowance-add.ts'
import { editAllowance, endAllowance } from './allowance-edit.ts'
import { contentOf } from './allowance-file.ts'
import { readAllowance } from './allowance-steps.ts'
import { allowanceCard, allowanceTable, clockAt } from './show-allowances.ts'

const ID = ['<id>', 'the allowance, as `allowance list` names it'] as const
const FILE = 'an allowance as YAML or JSON, as `allowance show --yaml` prints one; `-` reads standard input'
const YES = ['--yes', 'without being asked at a terminal'] as const

const FILE_HELP = `
At most 50 francs each and 200 a day, to one payee:
  id: weekend
  zone: Europe/Zurich
  until: '2026-03-08T23:00:00+01:00'
  amounts: [{ name: price, unit: CHF, each_max: '50' }]
  windows: [{ of: price, per: day, max: '200' }]   # of: an amount, or calls; per: hour, day, week, month, all
  tiers:
    shopping:
      tools: [place_order]
      amounts: { price: { pointer: /price, unit_pointer: /currency } }
      only: [{ pointer: /payee, one_of: [Corner Bakery] }]
      free: [/note]
      beyond: ask                                  # or refuse
`

/** Adds `allowance list|show|add|edit|end`. */
export function addAllowanceCommands(program: Command, action: OwnerAction): void {
  const allowance = program
    .command('allowance')
    .description('what agents may do without asking you each time, and how much of it is used')
  allowance
    .command('list')
    .description('how much of each allowance is used, one line for each window')
    .action(action(listAllowances))
  allowance
    .command('show')
    .argument(...ID)
    .option('--yaml', 'as YAML, which `allowance add` and `edit` take back')
    .description('one allowance whole, in words, and how much of it is used')
    .action(action(showAllowance))
  allowance
    .command('add')
    .argument('<file>', FILE)
    .option(...YES)
    .description('make one, and the rules of its tiers: shows to whom that opens what, and asks')
    .addHelpText('after', FILE_HELP)
    .action(action(addAllowance))
  allowance
    .command('edit')
    .argument(...ID)
    .argument('[file]', FILE)
    .option('--max <per:of=value>', 'in place of a file: the limit of one window, such as day:price=300')
    .option(...YES)
    .description('replace what it says: shows what changes, and asks; what was granted before stays')
    .addHelpText('after', FILE_HELP)
    .action(action(editAllowance))
  allowance
    .command('end')
    .argument(...ID)
    .option(...YES)
    .description('every operation is beyond it from now on; asks you first at a terminal')
    .action(action(endAllowance))
}

async function listAllowances(session: OwnerSession): Promise<void> {
  tell(session, await readAll(session.client.allowances()), allowanceTable)
}

async function showAllowance(
  session: OwnerSession,
  id: string,
  { yaml = false }: { yaml?: boolean },
): Promise<void> {
  const allowance = await readAllowance(session, id)
  if (yaml && !session.json)
    return session.terminal.out(await yamlText({ id: allowance.id, ...contentOf(allowance) }))
  const tiers = session.json ? [] : await session.client.policies()
  const clock = clockAt(session.columns)
  tell(session, allowance, (one, columns) => allowanceCard(one, { tiers, clock }, columns))
}
