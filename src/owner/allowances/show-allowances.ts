/**
 * Owns how allowances read on a terminal, escaped: a line for each window, and the card of one in words.
 * Contract: "Owner API"; an addition (docs/details/owner-api.md).
 */
import {
  allowanceLines,
  changedLines,
  quantityText,
  windowText,
  type CardClock,
} from '../../rules/words/allowance-words.ts'
import { allowancesIn } from '../../rules/allowance/tier-allowance.ts'
import { hanging, localTime, localZone, printable, printableTime, record } from '../../terminal/printable.ts'
import type { OwnerAllowance } from '../../wire/documents/allowance.ts'
import type { Tier } from '../../wire/owner/owner-api.ts'
import { columnsTable } from '../display/columns.ts'
import type { AllowanceRecord, WindowGauge } from './allowance-record.ts'

/** How long a line of a card is at most, on a terminal of any width. */
const CARD_WIDE = 100

/** One window of an allowance, or an allowance without windows. */
interface WindowLine {
  allowance: string
  until: string | null
  window?: string
  used?: string
  whose?: string | undefined
  held?: string | undefined
  left?: string | undefined
  ends?: string | null | undefined
}

/** The windows of all allowances, one line each: how much of each is used, and when it begins anew. */
export function allowanceTable(all: readonly AllowanceRecord[], columns?: number): string {
  if (all.length === 0) return 'You have no allowances. To make one: usher owner allowance add <file>\n'
  const windows = columnsTable<WindowLine>(
    all.flatMap(rowsOf),
    [
      { heading: 'allowance', of: row => row.allowance },
      { heading: 'window', of: row => row.window },
      { heading: 'whose', of: row => row.whose, as: 'name', shown: 'filled' },
      { heading: 'used', of: row => row.used },
      { heading: 'held', of: row => row.held },
      { heading: 'left', of: row => row.left },
      { heading: 'begins anew', of: row => row.ends, as: 'time', shown: 'filled' },
      { heading: 'until', of: row => row.until, as: 'time', shown: 'filled' },
    ],
    columns,
  )
  return windows + all.map(notesText).join('')
}

/** What the numbers of an allowance do not say. */
function notesText(allowance: AllowanceRecord): string {
  const { id, more, windows } = allowance
  const isLowered = windows.some(({ ceiling }) => ceiling !== undefined)
  return [
    isOfNobody(allowance)
      ? `No agent has used ${printable(id)} yet in its present windows, or your authority cannot tell how much.\n`
      : '',
    more === true ? `More agents than these used ${printable(id)}.\n` : '',
    isLowered
      ? `What is left of ${printable(id)} is by your own limit; at what your organization governs, less may be left.\n`
      : '',
  ].join('')
}

function rowsOf(allowance: AllowanceRecord): WindowLine[] {
  const { id, until, windows, held_more } = allowance
  if (windows.length === 0) return [{ allowance: id, until }]
  // A note says of what nobody used that nobody did; only the authority says a number of it.
  const unsaid = isOfNobody(allowance) ? '-' : '?'
  return gaugesOf(allowance).flatMap(({ whose, windows: gauges }) =>
    gauges.map(({ of, per, max, used, held, left, ends }) => ({
      allowance: id,
      until,
      window: windowText({ of, per }),
      used: `${used ?? unsaid} of ${quantityText(allowance, of, max)}${ceilingText(allowance, { of, per })}`,
      whose,
      held: held !== undefined && held_more === true ? `${held} or more` : held,
      left,
      ends,
    })),
  )
}

/** The lower limit of her organization in one window, as it stands behind her own. */
function ceilingText(allowance: AllowanceRecord, { of, per }: Pick<WindowGauge, 'of' | 'per'>): string {
  const ceiling = allowance.windows.find(one => one.of === of && one.per === per)?.ceiling
  return ceiling === undefined ? '' : `, your organization: ${quantityText(allowance, of, ceiling)}`
}

/** What is known of a window: only its limit if the authority tells no use. */
type KnownWindow = Pick<WindowGauge, 'of' | 'per' | 'max'> &
  Partial<Pick<WindowGauge, 'used' | 'held' | 'left' | 'ends'>>

interface KnownUse {
  whose?: string | undefined
  windows: KnownWindow[]
}

/** What the authority tells of each window; of those that it leaves out, their limits are known. */
function gaugesOf(allowance: AllowanceRecord): KnownUse[] {
  const { use = [], windows } = allowance
  if (use.length > 0) return use
  return [isOfNobody(allowance) ? { windows, whose: 'each' } : { windows }]
}

/**
 * Whether no agent has begun a window of its own. Windows that all agents share are always told, used or not,
 * so without them the authority cannot tell; and an earlier authority tells none.
 */
function isOfNobody({ use, windows, among }: AllowanceRecord): boolean {
  return among === 'lineage' && use?.length === 0 && windows.length > 0
}

/**
 * The card of one allowance, and how much of it is used. `tiers` are hers, because their rules say what goes
 * by it.
 */
export function allowanceCard(
  allowance: AllowanceRecord,
  { tiers, clock }: { tiers: readonly Tier[]; clock: CardClock },
  columns?: number,
): string {
  const ofTiers = Object.keys(allowance.tiers).map(id => beyondText(allowance.id, id, tiers))
  const windows = allowance.windows.length === 0 ? '' : `\n${allowanceTable([allowance], columns)}`
  return cardText(allowance, clock) + ofTiers.join('') + windows
}

/** What it says, a line for each limit. */
export function cardText(allowance: OwnerAllowance, clock: CardClock): string {
  const { id, version } = allowance
  return record({ allowance: id, version }) + listedLines('-', allowanceLines(allowance, clock))
}

/** What becomes of an operation that is beyond it, by the rules of one tier. */
function beyondText(id: string, tierId: string, tiers: readonly Tier[]): string {
  const at = printable(tierId)
  const tier = tiers.find(one => one.id === tierId)
  if (tier === undefined) return `You have no tier ${at}.\n`
  const rules = tier.rules.filter(rule => allowancesIn([rule]).includes(id))
  if (rules.length === 0)
    return `No rule of ${at} goes by it: it lets nothing through there, and bounds nothing.\n`
  const what = rules.some(({ then }) => then === 'refuse') ? 'is refused' : 'comes to you'
  return `Beyond it at ${at}: an operation ${what}.\n`
}

/** What an edit changes, in lines of the card; empty if it changes nothing that the card says. */
export function changeText(before: OwnerAllowance, after: OwnerAllowance, clock: CardClock): string {
  const { goes, comes } = changedLines(before, after, clock)
  return (
    (goes.length === 0 ? '' : `No longer:\n${listedLines('-', goes)}`) +
    (comes.length === 0 ? '' : `From then on:\n${listedLines('+', comes)}`)
  )
}

function listedLines(mark: string, lines: readonly string[]): string {
  return lines.map(line => `${mark} ${hanging(printable(line), 2, CARD_WIDE)}\n`).join('')
}

/** Times of a card: in the zone of this machine at a terminal, which is then named; elsewhere in UTC. */
export function clockAt(columns: number | undefined): CardClock {
  const timeText = (time: string): string =>
    columns === undefined ? printableTime(time) : `${localTime(time)} (${localZone()})`
  return { nowMs: Date.now(), timeText }
}
