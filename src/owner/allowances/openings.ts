/**
 * Owns what making an allowance does at its tiers: the rules that each gets, and what an owner reads before
 * that of the agents to which it opens. Contract: "Policy vocabulary and tiers", "Connection"; an addition
 * (docs/details/owner-api.md).
 */
import { allowancesIn } from '../../rules/allowance/tier-allowance.ts'
import { limitLines } from '../../rules/words/allowance-words.ts'
import { UsageError } from '../../terminal/command.ts'
import { printable } from '../../terminal/printable.ts'
import type { OwnerAllowance } from '../../wire/documents/allowance.ts'
import type { Connection, Tier } from '../../wire/owner/owner-api.ts'
import { agentName } from '../display/labels.ts'
import type { BeyondEffect } from './allowance-file.ts'

/** What opens a tier; an allowance only takes back a part of it. */
const BY_APPROVAL = 'standing.approved_at_tier'

type OpeningRule = Tier['rules'][number]

/** What becomes of one tier; without `rules` it goes by the allowance already. */
interface TierOpening {
  tier: Tier
  /** What happens beyond the allowance. */
  beyond: BeyondEffect
  /** A rule lets agents through that she approved there, and was there before. */
  isOpen: boolean
  rules?: OpeningRule[]
}

/** What is to be done at each tier of the allowance. Throws `UsageError` if one cannot go by it. */
export function openingsOf(
  { id, tiers: named }: OwnerAllowance,
  beyond: ReadonlyMap<string, BeyondEffect>,
  tiers: readonly Tier[],
): TierOpening[] {
  const ids = Object.keys(named)
  if (ids.length === 0)
    throw new UsageError('Name a tier in `tiers`: an allowance bounds what goes there without asking you.')
  return ids.map(tierId => {
    const tier = tiers.find(one => one.id === tierId)
    if (tier === undefined)
      throw new UsageError(`You have no tier ${tierId}. Your tiers: usher owner policies`)
    if (!tier.ask_me)
      throw new UsageError(
        `${tierId} does not ask you about each operation, so an allowance bounds nothing there: set its ask_me first.`,
      )
    const other = allowancesIn(tier.rules).find(one => one !== id)
    if (other !== undefined)
      throw new UsageError(`${tierId} goes by the allowance ${other}, and a tier goes by one at most.`)
    return openingOf(id, tier, beyond.get(tierId) ?? 'ask')
  })
}

function openingOf(id: string, tier: Tier, beyond: BeyondEffect): TierOpening {
  const condition = `operation.beyond:${id}`
  const others = tier.rules.filter(({ when }) => !when.includes(condition))
  const bounds = tier.rules.filter(({ when }) => when.includes(condition))
  const isOpen = others.some(isByApproval)
  if (isOpen && bounds.length === 1 && bounds[0]!.then === beyond) return { tier, beyond, isOpen }
  const auto: OpeningRule[] = isOpen ? [] : [{ when: [BY_APPROVAL], then: 'auto' }]
  return { tier, beyond, isOpen, rules: [...others, ...auto, { when: [condition], then: beyond }] }
}

/** A rule that lets through each agent that she approved at the tier. */
function isByApproval({ when, then }: OpeningRule): boolean {
  return then === 'auto' && when.length === 1 && when[0] === BY_APPROVAL
}

/** Whether agents pass also by another rule. Which ones is unknown here: it may go by an agent's past. */
function hasOtherWay(rules: readonly OpeningRule[]): boolean {
  return rules.some(rule => rule.then === 'auto' && !isByApproval(rule))
}

/**
 * What an edit does at a tier that the allowance did not name before. Its rules may go by the allowance
 * already; then they open it at once.
 */
export function reopeningText(
  allowance: OwnerAllowance,
  tierId: string,
  { tiers, connections }: { tiers: readonly Tier[]; connections: readonly Connection[] },
): string {
  const at = printable(tierId)
  const tier = tiers.find(({ id }) => id === tierId)
  if (tier === undefined) return `You have no tier ${at}.\n`
  if (!allowancesIn(tier.rules).includes(allowance.id))
    return `No rule of ${at} goes by it yet: \`usher owner allowance add\` with this file writes the rules.\n`
  // What an allowance does not name is beyond it, so that nobody passed there until now.
  const otherwise = `Another rule of ${at} lets agents through, too. It opens to those who pass by it, within the allowance, whether they are named here or not.`
  if (tier.rules.some(isByApproval))
    return `The rules of ${at} go by it already: ${opensText(allowance, tier, { connections, otherwise })}\n`
  return tier.rules.some(({ then }) => then === 'auto')
    ? `The rules of ${at} go by it already: it opens at once to each agent that they let through.\n`
    : `The rules of ${at} go by it already, but none lets anything through, so nothing opens there.\n`
}

/**
 * To whom a tier opens, what each may then do, and that the next approval opens it, too. `otherwise` is said
 * if agents pass by another rule than the one that goes by her approval.
 */
function opensText(
  allowance: OwnerAllowance,
  { id, rules }: Pick<Tier, 'id' | 'rules'>,
  { connections, otherwise }: { connections: readonly Connection[]; otherwise: string },
): string {
  const at = printable(id)
  const tools = (allowance.tiers[id]?.tools ?? []).map(printable).join(', ')
  const limits = limitLines(allowance).map(printable).join('; ')
  const names = agentsThrough(id, connections).map(printable)
  const isOpenOtherwise = hasOtherWay(rules)
  const none = isOpenOtherwise ? nobodyText(at) : `${at} opens to nobody yet: you approved no agent there.`
  return [
    ...(names.length === 0
      ? [none]
      : [
          `${at} opens at once to ${names.join(', ')}.`,
          `Without asking you each may then use ${tools}: ${limits}.`,
        ]),
    ...(isOpenOtherwise ? [otherwise] : []),
    'Approving an operation there opens it to that agent, too.',
  ].join('\n')
}

/** Of a tier where agents may pass by another rule: only who passes by her approval is known. */
function nobodyText(at: string): string {
  return `By an approval of yours at ${at}, nobody passes so far.`
}

/** What saving does at one tier: to whom it opens what, or what it takes back, and what is beyond it. */
export function openingText(
  allowance: OwnerAllowance,
  { tier, beyond, isOpen, rules }: TierOpening,
  connections: readonly Connection[],
): string {
  const at = printable(tier.id)
  const beyondIt = `What is beyond it ${beyond === 'refuse' ? 'is refused' : 'comes to you'}.\n`
  if (rules === undefined) return `\n${at} goes by it already. ${beyondIt}`
  const edit = `The rules of ${at} are edited: what waits for you there is withdrawn, and agents ask again.\n`
  const otherwise = `Another rule of ${at} lets agents through already. Those who pass by it go on passing, within the allowance, whether they are named here or not.`
  if (!isOpen) return `\n${opensText(allowance, tier, { connections, otherwise })} ${beyondIt}${edit}`
  const isOpenOtherwise = hasOtherWay(tier.rules)
  const names = agentsThrough(tier.id, connections).map(printable)
  const none = isOpenOtherwise ? nobodyText(at) : 'You approved nobody there yet.'
  const whom = names.length === 0 ? none : `Its rules let through ${names.join(', ')} now.`
  const already = `${at} is open already to each agent that you approved there; this bounds it.`
  return `\n${already}\n${whom} ${isOpenOtherwise ? `${otherwise} ` : ''}${beyondIt}${edit}`
}

/**
 * The agents that a rule lets through which goes by her approval at the tier: of the agent itself, of its
 * introducer, of those that it introduced, or of those that the same one introduced.
 */
function agentsThrough(tierId: string, connections: readonly Connection[]): string[] {
  const active = connections.filter(({ status, blocked_at }) => status === 'active' && !blocked_at)
  const approved = active.filter(({ tiers_approved }) => tiers_approved.includes(tierId))
  const labels = new Map<string, string>(
    active.flatMap(({ handle, label }) => (label === null ? [] : [[handle, label]])),
  )
  return active
    .filter(one => approved.some(other => other === one || isKin(one, other)))
    .map(({ handle }) => agentName(handle, labels))
}

/** What others let in is bound to what they hold, and nobody's approval reaches it. */
function isKin(one: Connection, other: Connection): boolean {
  if (typeof one.reach === 'string') return false
  return (
    one.introduced_by === other.handle ||
    other.introduced_by === one.handle ||
    (one.introduced_by !== null && one.introduced_by === other.introduced_by)
  )
}
