/**
 * Owns how one waiting request reads on a terminal: the facts come from the record that her decision is bound
 * to, and only her own name for the agent is added to them. Contract: "Owner API" (`item`).
 */
import {
  approvedSentences,
  goesOnSentence,
  NO_LATER_TIERS,
  requestSentences,
  vouchedText,
} from '../../rules/words/request-sentences.ts'
import { becauseText, opensByGrant, secondsText, wasOpen, wasRevoked } from '../../rules/words/rule-words.ts'
import { hanging, localTime, printable, record } from '../../terminal/printable.ts'
import type { DecisionItem } from '../../wire/owner/decision-item.ts'
import { canonicalize } from '../../wire/json.ts'
import type { JointShare, PendingItem } from '../../wire/owner/owner-api.ts'
import { enforcedText, prohibitionText } from './enforced.ts'
import { shortName } from '../../client/names.ts'
import { agentName, NO_NAMES, type Labels, type DisplayNames } from './labels.ts'
import { namedResource } from '../../rules/words/resource-words.ts'
import { ownWordsText, type OwnWords } from './own-words.ts'
import { operationText } from './show.ts'

/** What is shown of a request beside its record: the agent's own words, and how she knows what it names. */
export interface Beside {
  words: OwnWords
  names?: DisplayNames
}

/** How long a line of sentences is at most, on a terminal of any width. */
const SENTENCES_WIDE = 80

/** One complete waiting request, and how to answer it. */
export function pendingDetails(pending: PendingItem, beside: Beside): string {
  const family = printable(pending.item?.family ?? pending.family)
  return `${pendingRecord(pending, beside)}\nusher owner approve ${family}\nusher owner deny ${family}\n`
}

/** One complete waiting request; one of its lines says what approving it opens. */
export function pendingRecord(pending: PendingItem, { words, names = NO_NAMES }: Beside): string {
  const item = pending.item as DecisionItem | undefined
  if (item === undefined) return `${listedText(pending, names.labels)}\n${ownWordsText(words)}`
  const sentences = requestSentences(item, calledBy(item, names)).map(printable)
  const facts = `${hanging(sentences.join(' '), 0, SENTENCES_WIDE)}\n\n${record(factsOf(item, names))}`
  return `${facts}\n${ownWordsText(words)}`
}

/**
 * What she has allowed by approving it, and the command that ends it; empty for one without a record. `only`:
 * she approved no more than this.
 */
export function approvedText(
  { item }: Partial<Pick<PendingItem, 'item'>>,
  names: DisplayNames,
  only: boolean,
): string {
  if (item === undefined) return ''
  const short = shortName(item.agent.handle)
  const sentences = approvedSentences(item, { ...calledBy(item, names), short, only })
  return sentences.map(sentence => `${printable(sentence)}\n`).join('')
}

/** What `--only` takes back of what she was shown; empty for what is held jointly. */
export function onlyText({
  kind,
  tier,
  item,
}: Pick<PendingItem, 'kind' | 'tier'> & Partial<Pick<PendingItem, 'item'>>): string {
  if (kind === 'connection')
    return `With --only you let it in for ${printable(tier)} alone. ${NO_LATER_TIERS}\n`
  if (kind !== 'operation') return ''
  return opensByGrant(item?.because)
    ? `With --only this counts as no approval at ${printable(tier)}, but it is a grant. ${goesOnSentence(printable(tier))}\n`
    : `With --only you approve this call alone: nothing else opens at ${printable(tier)}.\n`
}

/** How sentences name the agent and the resource of a request. */
function calledBy(
  { agent, resource_id }: DecisionItem,
  { labels, resources }: DisplayNames,
): { who: string; resource: string } {
  const resource = namedResource(resource_id, resources) ?? `"${resource_id}"`
  return { who: agentName(agent.handle, labels), resource }
}

function factsOf(item: DecisionItem, { labels, resources }: DisplayNames): Record<string, unknown> {
  const { agent, terms, assurance, expires_in } = item
  return {
    family: item.family,
    kind: kindText(item),
    ...jointOf(item),
    agent: agent.handle,
    label: labels.get(agent.handle),
    identity: agent.identity,
    key: agent.jkt,
    operator: operatorText(item),
    organization: organizationText(item),
    resource: namedResource(item.resource_id, resources) ?? item.resource_id,
    'good at': item.resource,
    tier: item.tier,
    terms: item.template_id,
    purpose: terms.purpose,
    operation: item.operation && `${item.operation.tool} ${canonicalize(item.operation.params)}`,
    consequence: item.consequence ?? (item.operation && 'nobody says what it leads to'),
    'it may': item.scopes,
    'it may not': terms.prohibited,
    lasts: item.single_use ? `for one call, within ${secondsText(expires_in)}` : secondsText(expires_in),
    because: becauseText(item),
    ...opensOf(item),
    since: localTime(item.requested_at),
    'vouched for': vouchedText(assurance),
  }
}

const AGAIN = 'connection (an agent whose access was ended before)'
const KIND: Record<PendingItem['kind'], string> = {
  connection: 'connection (an agent you do not know)',
  operation: 'operation',
  joint: 'joint (something that you hold with others)',
}

function kindText({ kind, because }: Pick<DecisionItem, 'kind' | 'because'>): string {
  return kind === 'connection' && wasRevoked(because) ? AGAIN : (KIND[kind] ?? kind)
}

function operatorText({ operator }: DecisionItem): string {
  if (operator === undefined) return 'none named'
  const { origin, attested } = operator
  return `${origin} (${attested ? 'lists the key of this agent as its own' : 'named by the agent, and does not confirm it'})`
}

function organizationText({ organization }: DecisionItem): string | undefined {
  if (organization === undefined) return undefined
  const { issuer, org, name, effect, because } = organization
  return `${name} (${org} at ${issuer}) says ${effect}: ${because.join(', ')}`
}

/** For what she holds with others: with whom, how many must agree, and how far her approval goes. */
function jointOf({
  account,
  rule,
  holders,
}: Pick<PendingItem, 'account' | 'rule' | 'holders'>): Record<string, unknown> {
  if (account === undefined || rule === undefined || holders === undefined) return {}
  const weighs = (weight: number): string =>
    rule.total_weight === holders.length ? '' : `, weight ${weight}`
  return {
    account,
    'who is asked': holders.map(one => `${one.owner} at ${one.issuer}${weighs(one.weight)}`),
    'it takes': takesText(rule, holders.length),
    'approving opens': `nothing beside what is held jointly in ${account}`,
  }
}

function takesText({ kind, threshold, total_weight }: JointShare['rule'], holders: number): string {
  if (kind === 'all') return 'the approval of all of them'
  if (kind === 'any') return 'the approval of any one of them'
  if (total_weight === holders) return `the approval of ${threshold} of them`
  return `approvals that weigh ${threshold} of ${total_weight}`
}

const LATER = 'later, tiers that are added and do not ask you'

/** What else her approval opens; an authority of an earlier version does not say. */
function opensOf({
  kind,
  opens,
  because,
}: Pick<PendingItem, 'kind' | 'opens' | 'because'>): Record<string, unknown> {
  if (kind === 'joint' || opens === undefined) return {}
  if (kind === 'operation') return opens.length === 0 ? {} : { 'approving opens': openedText(opens, because) }
  const now =
    opens.length === 0
      ? 'nothing now: every tier of yours asks you about each operation'
      : `without asking you again: ${opens.join(', ')}`
  return { 'approving opens': `${now}; ${LATER}; for one tier alone: --only` }
}

/** The tier of an operation is opened as far as her rules and an allowance go, and `--only` keeps it shut. */
function openedText(opens: readonly string[], because: readonly string[]): string {
  const tier = opens.join(', ')
  const opened = wasOpen(because) ? `nothing more than ${tier}, which may be open to it already` : tier
  return `${opened}, as far as your rules and allowance there go; this call alone: --only`
}

const UNBOUND =
  'The authority gives no record of this request: it lists what follows, and no decision is bound to it.'

/** A request of an authority that gives no record, as it lists it. */
function listedText(pending: PendingItem, labels: Labels): string {
  const { assurance, enforced, identity } = pending as Partial<PendingItem>
  const facts = record({
    family: pending.family,
    kind: kindText(pending),
    ...jointOf(pending),
    agent: pending.handle,
    label: labels.get(pending.handle),
    identity: identity?.kind,
    operator: identity?.operator,
    resource: pending.resource_id,
    tier: pending.tier,
    purpose: pending.purpose,
    operation: pending.operation ? operationText(pending.operation) : undefined,
    prohibited: pending.prohibited.map(prohibition => prohibitionText(prohibition, enforced ?? {})),
    enforced: enforcedText(enforced ?? {}),
    lasts: secondsText(pending.expires_in),
    because: becauseText(pending),
    ...opensOf(pending),
    since: localTime(pending.requested_at),
    'vouched for': assurance && vouchedText(assurance),
  })
  return `${UNBOUND}\n\n${facts}`
}
