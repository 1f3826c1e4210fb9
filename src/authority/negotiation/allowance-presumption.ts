/**
 * Owns what an authority remembers of an allowance, so that most agreements need not read it: what a version
 * says, which never changes, and when its present windows begin and end, which the calendar says. What use
 * changes is not remembered, and nothing is decided by this: a grant is issued only if the statement that
 * writes it finds all of it true and room in every window, and any other answer rests on a reading. Contract:
 * "Policy vocabulary and tiers", "Grant (RPT) liveness".
 */
import { BoundedMap } from '../../limits/bounded-map.ts'
import type { Pools } from '../../storage/authority/database.ts'
import type { AllowanceUse } from '../../storage/authority/policies/allowance-windows.ts'
import type { Owner } from '../../wire/identifiers.ts'
import type { Store } from '../context.ts'
import { operationToWeigh } from './allowance.ts'
import type { RecordedPresentation, TicketPresentation } from './presentation.ts'

/**
 * Of how many allowances, and of how many characters each: what values they list takes many times as much
 * memory as its text. Any other is read.
 */
const ALLOWANCES_MAX = 1_000
const CONTENT_LENGTH_MAX = 2_000

type Remembered = BoundedMap<string, AllowanceUse>

const byDatabase = new WeakMap<Pools, Remembered>()

function rememberedOf(database: Pools): Remembered {
  const known = byDatabase.get(database) ?? new BoundedMap<string, AllowanceUse>(ALLOWANCES_MAX)
  byDatabase.set(database, known)
  return known
}

/** No id of an allowance has a space. */
const nameOf = (owner: Owner, id: string): string => `${id} ${owner}`

/**
 * The use by which the agreement is weighed first, as if nothing of the allowance were used; undefined if it
 * must be read: it is not known, or others than the owner have a say. An organization is told what was found,
 * and the request of an agent that is brought in holds the owner's queue while its grant is written.
 */
export function presumedUse(
  { database, now }: Store & { readonly now: () => number },
  presented: TicketPresentation,
): AllowanceUse | undefined {
  const { family, named, governed } = presented
  if (named !== undefined || governed.organization !== undefined || governed.attesting !== undefined)
    return undefined
  const toWeigh = operationToWeigh(presented)
  const known = toWeigh && rememberedOf(database).get(nameOf(family.owner, toWeigh.id))
  return known && { ...known, now: now() }
}

/**
 * Remembers the allowance that an agreement was found within, and forgets one that another was beyond, so
 * that what would be refused by the statement is not sent. Where each lineage has windows of its own, only a
 * reading tells whose an agent's are.
 */
export function rememberUse(database: Pools, recorded: RecordedPresentation): void {
  const use = recorded.standing.allowanceUse
  const toWeigh = operationToWeigh(recorded)
  if (toWeigh === undefined) return
  const name = nameOf(recorded.family.owner, toWeigh.id)
  const remembered = rememberedOf(database)
  const isWithin = use !== undefined && recorded.within !== undefined
  if (!isWithin || use.allowance.among !== 'all' || use.content.length > CONTENT_LENGTH_MAX)
    return void remembered.delete(name)
  const windows = use.windows.map(window => ({ ...window, used: '0' }))
  remembered.set(name, { ...use, windows, unspent: 0 })
}
