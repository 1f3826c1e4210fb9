/**
 * Owns the sentences in which an owner reads what an agent asks of her, and what she allowed it. Contract:
 * "Owner API" (`item`), "Policy vocabulary and tiers" (assurance). All of it comes from the record that her
 * decision is bound to; texts of others are in it as they came.
 */
import type { DecisionItem } from '../../wire/owner/decision-item.ts'
import { opensByGrant, secondsText, wasOpen, wasRevoked } from './rule-words.ts'

/** What an agent reaches that is let in for more than one tier: her tiers of today are not the end of it. */
export const LATER_TIERS = 'A tier that is added later and does not ask you is open to it, too.'

/** What an agent reaches that is let in for one tier alone. */
export const NO_LATER_TIERS = 'At any other tier you are asked first, also at one that is added later.'

/** A word that reads as a verb: `read`, `trade`; others (`portfolio:read`) are quoted. */
const VERB = /^[a-z]+$/

/** `who` is how she calls the agent at the beginning of a sentence, `resource` how she knows the resource. */
interface CalledBy {
  who: string
  resource: string
}

/**
 * The request in sentences: who asks for what and for how long, who vouches for the agent, what it promises,
 * and how far an approval goes.
 */
export function requestSentences(item: DecisionItem, called: CalledBy): string[] {
  return [asksSentence(item, called), vouchedSentence(item), promiseSentence(item), openSentence(item)]
}

function asksSentence(item: DecisionItem, { who, resource }: CalledBy): string {
  const { kind, operation, single_use, expires_in, account } = item
  const time = secondsText(expires_in)
  const asking = askingText(item, who)
  if (operation !== undefined && single_use)
    return `${asking} to use ${operation.tool} of ${resource} once within ${time}, with exactly the parameters below.`
  const jointly = kind === 'joint' && account !== undefined ? `, which you hold with others (${account})` : ''
  return `${asking} ${reachText(item.scopes, resource)} for ${time}${jointly}.`
}

function askingText({ kind, because }: DecisionItem, who: string): string {
  if (wasRevoked(because)) return `${who}, whose access was ended before, asks again`
  return kind === 'connection' ? `A new agent, ${lowered(who)}, asks` : `${who} asks`
}

/** `to read and trade "alice/portfolio"`, or `for "portfolio:read" at "alice/portfolio"`. */
function reachText(scopes: readonly string[], resource: string): string {
  if (scopes.length > 0 && scopes.every(scope => VERB.test(scope))) return `to ${listed(scopes)} ${resource}`
  return `for ${listed(scopes.map(scope => `"${scope}"`))} at ${resource}`
}

/** What the checks of the authority found; a level of a later version is told as no more than these. */
function vouchedSentence({ assurance: { provenance }, operator, agent }: DecisionItem): string {
  const issuer = provenance >= 1 ? [`Its issuer vouches for it as ${agent.handle}.`] : []
  const named =
    operator === undefined
      ? []
      : operator.attested
        ? [`Its operator ${operator.origin} lists its key as its own.`]
        : [`It says that ${operator.origin} runs it; nobody there confirms that.`]
  if (issuer.length === 0 && operator?.attested !== true)
    return ['Nobody vouches for it.', ...named].join(' ')
  return [...issuer, ...named].join(' ')
}

function promiseSentence({ terms: { prohibited } }: DecisionItem): string {
  if (prohibited.length === 0) return 'It promises nothing more.'
  return `It promises to keep from ${listed(prohibited)}; usher cannot check that.`
}

/** A connection that stands may reach more than this operation, so nothing is said of what else it can do. */
function openSentence({ kind, opens, account, tier, because }: DecisionItem): string {
  if (kind === 'joint' && account !== undefined)
    return `Approving opens nothing beside what is held in ${account}.`
  if (kind === 'operation') {
    if (opens.length === 0)
      return opensByGrant(because)
        ? `Approving opens no other tier. ${goesOnSentence(tier)}`
        : 'Approving opens nothing else.'
    return wasOpen(because)
      ? `Approving opens nothing more than ${tier}, which may be open to it already: what your rules and allowance there let through, it may then do without asking you.`
      : `Approving also opens ${tier} to it: what your rules and allowance there let through, it may then do without asking you.`
  }
  return `${opensNowSentence({ opens, tier })} ${LATER_TIERS}`
}

/** What the grant opens by itself, whether or not it counts as an approval at the tier. */
export function goesOnSentence(tier: string): string {
  return `At ${tier} a rule asks you about the first grant: after this one it may go on there without asking you, unless another rule asks.`
}

/** `opens` may name the tier that the agent asks at, which is no other than what it asks for. */
function opensNowSentence({ opens, tier }: Pick<DecisionItem, 'opens' | 'tier'>): string {
  const nothing = 'As your tiers are now, it can do nothing else without asking you.'
  if (opens.length === 0) return nothing
  const others = opens.filter(id => id !== tier)
  if (others.length === opens.length)
    return `Approving also opens, without asking you again: ${others.join(', ')}.`
  const again = 'Approving lets it do this again without asking you'
  if (others.length === 0) return `${again}. ${nothing}`
  return `${again}, and also opens, without asking you: ${others.join(', ')}.`
}

/**
 * What an approval lets the agent do, and how she ends it: `short` is how commands take the agent, `only`
 * that she approved no more than this.
 */
export function approvedSentences(
  item: DecisionItem,
  { who, resource, short, only }: CalledBy & { short: string; only: boolean },
): string[] {
  const { operation, single_use, expires_in, opens, tier, kind, because } = item
  const time = secondsText(expires_in)
  const may =
    operation !== undefined && single_use
      ? `${who} may use ${operation.tool} of ${resource} once within ${time}, with exactly what you were shown.`
      : `${who} may ${reachText(item.scopes, resource).replace(/^to /, '').replace(/^for/, 'use')} for ${time} from when it collects its grant.`
  const again =
    kind === 'connection' && opens.includes(tier)
      ? [`After that it gets a new one without asking you, unless a rule of ${tier} asks.`]
      : []
  const opened =
    kind === 'operation' && opens.includes(tier) && !only && !wasOpen(because)
      ? [`What your rules and allowance at ${tier} let through, it may do without asking you from now on.`]
      : []
  const goesOn =
    kind === 'operation' && opened.length === 0 && opensByGrant(because) ? [goesOnSentence(tier)] : []
  const later = kind === 'connection' ? [only ? NO_LATER_TIERS : LATER_TIERS] : []
  return [may, ...again, ...opened, ...goesOn, ...later, `To end it: usher owner revoke ${short}`]
}

function lowered(who: string): string {
  return who.replace(/^Agent /, '')
}

/** `a, b and c`. */
function listed(words: readonly string[]): string {
  if (words.length <= 1) return words.join('')
  return `${words.slice(0, -1).join(', ')} and ${words.at(-1)}`
}

/**
 * Who vouches for the agent, as the checks of the owner's authority found: its assurance in words, such as
 * `by nobody` or `by its issuer`.
 */
export function vouchedText({ provenance, accountability }: DecisionItem['assurance']): string {
  const by = [
    ...(provenance >= 1 ? ['by its issuer'] : []),
    ...(accountability >= 2 ? ['by its operator, who lists its key'] : []),
    ...(accountability === 1 ? ['by no operator: the one that it names does not list its key'] : []),
  ]
  return by.length === 0 ? 'by nobody' : by.join(', ')
}
