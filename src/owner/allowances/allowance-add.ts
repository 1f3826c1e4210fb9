/**
 * Owns `usher owner allowance add`: an allowance and the rules of its tiers that go by it, after she read to
 * whom that opens what. Contract: "Owner API", "Policy vocabulary and tiers"; an addition
 * (docs/details/owner-api.md). The allowance is saved before the rules, so that nothing opens without its
 * bound.
 */
import { ApiError } from '../../client/api-error.ts'
import { readAll } from '../../client/exchange.ts'
import { allowancesIn } from '../../rules/allowance/tier-allowance.ts'
import { UsageError } from '../../terminal/command.ts'
import { printable } from '../../terminal/printable.ts'
import type { OwnerAllowance } from '../../wire/documents/allowance.ts'
import type { JsonObject } from '../../wire/json.ts'
import type { Tier } from '../../wire/owner/owner-api.ts'
import { ask } from '../display/answers.ts'
import { waitingSentence } from '../display/show.ts'
import { askForYes, type YesOption } from '../confirmation.ts'
import { tell, type OwnerSession } from '../session.ts'
import { allowanceFrom, isSameAllowance, readAllowanceFile } from './allowance-file.ts'
import { findAllowance, saveAllowance } from './allowance-steps.ts'
import { openingsOf, openingText } from './openings.ts'
import { cardText, clockAt } from './show-allowances.ts'

/**
 * Makes the allowance of a file, then edits each of its tiers once. Whatever is there already stays, so that
 * running it again goes on where it stopped. If the file or a tier does not fit, it fails before anything is
 * saved.
 */
export async function addAllowance(session: OwnerSession, file: string, options: YesOption): Promise<void> {
  const { client } = session
  const { id, content, beyond } = await readAllowanceFile(file)
  const before = await findAllowance(session, id)
  const allowance = allowanceFrom(id, content, before)
  if (before !== undefined && !isSameAllowance(before, allowance))
    throw new UsageError(
      `You have an allowance ${id} that says something else. To change it: usher owner allowance edit ${id} ${file}`,
    )
  const stored = before ?? allowance
  const openings = openingsOf(stored, beyond, await client.policies())
  const edits = openings.flatMap(({ tier, rules }) => (rules === undefined ? [] : [{ tier, rules }]))
  if (before === undefined || edits.length > 0) {
    const connections = await readAll(client.connections())
    const text =
      cardText(stored, clockAt(session.columns)) +
      openings.map(one => openingText(stored, one, connections)).join('')
    await askForYes(session, options, { text, question: `Save the allowance ${id}, and these rules?` })
  }
  const saved = before ?? (await saveAllowance(session, allowance))
  const tiers = await editTiers(session, edits, { id, file, version: saved.version })
  tell(session, { allowance: saved, tiers }, all => savedText(all, before === undefined))
}

type RulesEdit = Pick<Tier, 'rules'> & { tier: Tier }

/** What an edit of a tier is for: the allowance, the version of it to which she said yes, and its file. */
interface RulesPurpose {
  id: string
  version: number
  file: string
}

/**
 * Edits each tier in the version that was shown, and only while the allowance has the version to which she
 * said yes: the rules open the tier within its limits. If one is refused, it says what is stored and how to
 * go on.
 */
async function editTiers(
  session: OwnerSession,
  edits: readonly RulesEdit[],
  purpose: RulesPurpose,
): Promise<JsonObject[]> {
  const saved: JsonObject[] = []
  const query = { allowance_version: String(purpose.version) }
  for (const { tier, rules } of edits) {
    const path = `/owner/policies/${encodeURIComponent(tier.id)}`
    const headers = { 'if-match': `"${tier.terms.template_id}"` }
    try {
      saved.push(await ask(session, { method: 'PUT', path, query, body: { rules }, headers }))
    } catch (error) {
      const failure = error instanceof ApiError ? error : undefined
      session.terminal.err(partText(purpose, { edits, at: saved.length, failure }))
      throw error
    }
  }
  return saved
}

/** What is stored and what is not, if the edit of the tier at `at` failed so. */
function partText(
  { id, file }: RulesPurpose,
  { edits, at, failure }: { edits: readonly RulesEdit[]; at: number; failure: ApiError | undefined },
): string {
  const ids = edits.map(({ tier }) => printable(tier.id))
  const done = ids.slice(0, at)
  const status = failure?.status
  // Whatever stands before the authority may answer in its place, when it has saved them already.
  const isUnknown = status === undefined || status >= 500
  const isMoved = failure?.reason === 'allowance_moved'
  const isStale = status === 412 && !isMoved
  const asRead = edits.slice(isUnknown || isStale ? at + 1 : at)
  return [
    `Stored: the allowance ${printable(id)}${done.length === 0 ? '' : `, and the rules of ${done.join(', ')}`}.\n`,
    isMoved
      ? `The allowance was edited after you read it. Read it: usher owner allowance show ${printable(id)}\n`
      : '',
    isUnknown ? `It is not known whether the rules of ${ids[at]!} were stored.\n` : '',
    isStale
      ? `Not stored: the rules of ${ids[at]!}. They were changed meanwhile; read them: usher owner tier show ${ids[at]!}\n`
      : '',
    ...asRead.map(
      ({ tier }) => `Not stored: the rules of ${printable(tier.id)}. ${asBeforeText(tier, id)}\n`,
    ),
    `To go on: ${isMoved ? 'write what it says now into the file, then ' : ''}usher owner allowance add ${printable(file)}\n`,
  ].join('')
}

/** How a tier stands by the rules that it keeps. */
function asBeforeText({ rules }: Tier, allowanceId: string): string {
  if (!rules.some(({ then }) => then === 'auto')) return 'You are asked there as before.'
  return allowancesIn(rules).includes(allowanceId)
    ? 'It is open as before, within the allowance.'
    : 'It is still open, and not bounded by the allowance.'
}

function savedText(
  { allowance, tiers }: { allowance: OwnerAllowance; tiers: readonly JsonObject[] },
  isNew: boolean,
): string {
  const id = printable(allowance.id)
  return [
    isNew ? `Saved: the allowance ${id}.\n` : `The allowance ${id} was there already.\n`,
    ...tiers.map(tierText),
    tiers.length === 0 ? 'Each of its tiers goes by it already.\n' : '',
  ].join('')
}

function tierText(saved: JsonObject): string {
  const { id, terms, warnings = [] } = saved as unknown as Tier & { warnings?: string[] }
  const notes = warnings.map(warning => `Note: ${printable(warning)}\n`).join('')
  const offered = `${printable(id)} goes by it: ${printable(terms.template_id)} is offered from now on.\n`
  return offered + waitingSentence(saved) + notes
}
