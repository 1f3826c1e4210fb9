/**
 * Owns `usher owner allowance edit|end`: she is told in words what changes before it does. Contract: "Owner
 * API"; an addition (docs/details/owner-api.md).
 */
import { readAll } from '../../client/exchange.ts'
import { allowanceEditFault } from '../../rules/allowance/allowance.ts'
import { windowText } from '../../rules/words/allowance-words.ts'
import { secondsText } from '../../rules/words/rule-words.ts'
import { UsageError } from '../../terminal/command.ts'
import { printable } from '../../terminal/printable.ts'
import type { AllowanceContent, OwnerAllowance } from '../../wire/documents/allowance.ts'
import { askForYes, type YesOption } from '../confirmation.ts'
import { tell, type OwnerSession } from '../session.ts'
import {
  allowanceFrom,
  checkedContent,
  contentOf,
  isSameAllowance,
  readAllowanceFile,
} from './allowance-file.ts'
import { readAllowance, saveAllowance } from './allowance-steps.ts'
import { reopeningText } from './openings.ts'
import { changeText, clockAt } from './show-allowances.ts'

/** A window and its new limit: `day:price=300`. */
const MAX = /^(hour|day|week|month|all):([a-z][a-z0-9_]*)=(.+)$/

/** A request that she signs is taken from a clock that is at most this far ahead of the authority's. */
const CLOCK_AHEAD_MS = 60_000

/** Replaces what an allowance says by a file, or the limit of one window. Fails as `saveAllowance` does. */
export async function editAllowance(
  session: OwnerSession,
  id: string,
  file: string | undefined,
  { max, ...options }: YesOption & { max?: string },
): Promise<void> {
  const source = file ?? max
  if (source === undefined || (file !== undefined && max !== undefined))
    throw new UsageError('Give either a file, or --max with one window, such as day:price=300.')
  const before = await readAllowance(session, id)
  const content = max === undefined ? await fileContent(before, source) : contentWithMax(before, max)
  const fault = allowanceEditFault(before, content)
  if (fault !== undefined) throw new UsageError(`Correct ${source}: ${fault}`)
  const after = allowanceFrom(id, content, before)
  if (isSameAllowance(before, after)) return tell(session, before, () => 'It says this already.\n')
  const changes = changeText(before, after, clockAt(session.columns))
  const text = changes + (await tierNotes(session, before, after))
  await askForYes(session, options, { text, question: `Save the allowance ${id}?` })
  const saved = await saveAllowance(session, after)
  tell(session, saved, ({ version }) => `Saved: ${printable(id)} is version ${version} now.\n`)
}

async function fileContent({ id }: OwnerAllowance, file: string): Promise<AllowanceContent> {
  const read = await readAllowanceFile(file)
  if (read.id === id) return read.content
  throw new UsageError(`${file} is about the allowance ${read.id}: give that id, or the file of ${id}.`)
}

/** The content with another limit of the window that `text` names. */
function contentWithMax(before: OwnerAllowance, text: string): AllowanceContent {
  const [, per, of, max] = MAX.exec(text) ?? []
  const at = before.windows.findIndex(window => window.per === per && window.of === of)
  if (max === undefined || at === -1) {
    const present = before.windows.map(window => `${window.per}:${window.of} (${windowText(window)})`)
    throw new UsageError(
      `Give --max one of its windows and a number, such as day:price=300. Its windows: ${present.join(', ') || 'none'}.`,
    )
  }
  const windows = before.windows.with(at, { ...before.windows[at]!, max })
  return checkedContent({ ...contentOf(before), windows }, '--max')
}

/** What an edit means for the tiers that only one of the two versions names. */
async function tierNotes(
  { client }: OwnerSession,
  before: OwnerAllowance,
  after: OwnerAllowance,
): Promise<string> {
  const [was, becomes] = [Object.keys(before.tiers), Object.keys(after.tiers)]
  const dropped = was.filter(id => !becomes.includes(id))
  const added = becomes.filter(id => !was.includes(id))
  const tiers = added.length === 0 ? [] : await client.policies()
  const connections = added.length === 0 ? [] : await readAll(client.connections())
  return [
    ...dropped.map(id => `At ${printable(id)} every operation is beyond it then, and nothing opens.\n`),
    ...added.map(id => reopeningText(after, id, { tiers, connections })),
  ].join('')
}

/**
 * Ends an allowance. Asks first at a terminal; a script is not asked, because nothing opens. The end lies a
 * minute back, so that it has passed by the authority's clock as well.
 */
export async function endAllowance(
  session: OwnerSession,
  id: string,
  { yes = false }: YesOption,
): Promise<void> {
  const before = await readAllowance(session, id)
  const end = Date.now() - CLOCK_AHEAD_MS
  if (before.until !== null && Date.parse(before.until) <= end)
    return tell(session, before, () => `${printable(id)} has ended already.\n`)
  const mustAsk = !yes && !session.json && session.terminal.confirm !== undefined
  await askForYes(session, { yes: !mustAsk }, { text: endText(before), question: `End the allowance ${id}?` })
  const saved = await saveAllowance(session, {
    ...before,
    version: before.version + 1,
    until: new Date(end).toISOString(),
  })
  tell(session, saved, () => `${printable(id)} has ended: every operation is beyond it from now on.\n`)
}

function endText({ tiers, hold_s }: OwnerAllowance): string {
  const named = Object.keys(tiers).map(printable)
  const where = named.length === 0 ? '' : ` at ${named.join(', ')}`
  return (
    `From then on every operation${where} is beyond it: it comes to you, or is refused, as the rule there says.\n` +
    `Nothing opens. What was granted before is good until its end, within ${secondsText(hold_s)}.\n`
  )
}
