/**
 * Owns the sentence in which an owner reads one entry of her ledger. Contract: "Events" (row 5), "Owner API"
 * (`GET /owner/ledger`). An authority of another version may know other kinds: those have no sentence here.
 */
import type { LedgerEntry } from '../../wire/owner/owner-api.ts'
import { GROUP_SENTENCES } from './group-sentences.ts'
import { decider, timesText, type SentenceParts } from './ledger-parts.ts'
import { namedResource, NO_RESOURCE_NAMES, type ResourceNames } from './resource-words.ts'

const AN_AGENT = 'An agent that you do not know'

const SENTENCES: Readonly<Record<string, (parts: SentenceParts) => string>> = {
  promised: ({ who, of, resource }) => `${who} signed your terms "${of('tier')}" for ${resource}.`,
  relaxed: ({ whom, resource }) => `A rule of yours let ${whom} through at ${resource} without asking you.`,
  approved: parts => `${decider(parts)} approved what ${parts.whom} asked at ${parts.resource}.`,
  denied: deniedSentence,
  connected: ({ who, entry, of }) =>
    entry['introduced_by'] === undefined
      ? `${who} was let in.`
      : `${who} was let in: ${of('introduced_by')} introduced it.`,
  touched: ({ who, of }) => `${who} used ${of('tool')}.`,
  refused: refusedSentence,
  identity_refused: ({ who, of, entry }) =>
    `${who} did not prove who it is: ${of('reason')}${timesText(entry)}.`,
  revoked: parts => `${decider(parts)} ended the access of ${parts.whom}.`,
  claimed: ({ of }) => `You said that ${of('operator')} is your own.`,
  disclaimed: ({ of }) => `You said that ${of('operator')} is not your own any more.`,
  policy_changed: parts => `${decider(parts)} changed the tier "${parts.of('tier')}".`,
  policy_removed: parts => `${decider(parts)} removed the tier "${parts.of('tier')}".`,
  allowance_changed: parts => `${decider(parts)} changed the allowance "${parts.of('allowance')}".`,
  blocked: ({ whom, entry, of }) => `You blocked ${entry.handle === undefined ? of('operator') : whom}.`,
  unblocked: ({ whom, entry, of }) =>
    `You unblocked ${entry.handle === undefined ? of('operator') : whom}; it may ask again.`,
  server_approved: ({ of }) => `${of('client_id')} may serve you.`,
  server_withdrawn: ({ of }) => `${of('client_id')} serves you no more.`,
  origin_banned: ({ of }) => `No server of ${of('origin')} may ask to serve you.`,
  origin_unbanned: ({ of }) => `Servers of ${of('origin')} may ask to serve you again.`,
  withdrawn: ({ whom, of }) => `A request of ${whom} waits no more: ${of('reason')}.`,
  credential_added: ({ of }) => `"${of('name')}" may decide for you.`,
  credential_removed: ({ of }) => `"${of('name')}" may decide for you no more.`,
  recovery_started: () => 'Somebody is about to get a credential of yours: usher owner recovery says more.',
  recovery_cancelled: () => 'The recovery was cancelled: nobody gets a credential of yours by it.',
  suspended: () => 'Whoever runs your authority suspended your access: no agent passes.',
  resumed: () => 'Whoever runs your authority lets agents ask you again.',
  removed: () => 'Whoever runs your authority is removing you: no agent passes.',
  restored: () => 'Your authority was restored from a backup: every agent has to be let in again.',
  reports_missing: ({ of }) =>
    `Calls that ${of('client_id')} let through are missing here: its reports ${of('from')} to ${of('to')} never came.`,
  reports_unknown: ({ of }) =>
    `Calls that ${of('client_id')} let through since its report ${of('after')} may be missing here.`,
  subscription_added: parts => `Notifications go to ${subscriber(parts)}.`,
  subscription_changed: parts => `What is notified to ${subscriber(parts)} was changed.`,
  subscription_removed: parts => `No more notifications go to ${subscriber(parts)}.`,
  ...GROUP_SENTENCES,
}

/**
 * The entry as one sentence; undefined for a kind that has none. `nameOf` is how she calls the agent of a
 * handle, at the beginning of a sentence; `resources` are the names of her resources. Texts of others are in
 * it as they came.
 */
export function ledgerSentence(
  entry: LedgerEntry,
  nameOf: (handle: string) => string,
  resources: ResourceNames = NO_RESOURCE_NAMES,
): string | undefined {
  const { handle, kind } = entry
  const sentence = Object.hasOwn(SENTENCES, kind) ? SENTENCES[kind] : undefined
  const who = typeof handle === 'string' ? nameOf(handle) : AN_AGENT
  const of = (member: string): string => {
    const value = entry[member]
    return typeof value === 'string' || typeof value === 'number' ? String(value) : '-'
  }
  const whom = who.replace(/^An? /, word => word.toLowerCase()).replace(/^Agent /, 'agent ')
  const id = of('resource_id')
  return sentence?.({ entry, who, whom, of, resource: namedResource(id, resources) ?? id })
}

/**
 * Why an agent was refused. These are found before the agent says who it is, so that its entry names nobody,
 * also if it is an agent that she knows.
 */
const BEFORE_IDENTITY: ReadonlyMap<unknown, string> = new Map([
  ['server_withdrawn', 'you withdrew the server that it called'],
  ['unregistered', 'what it asked for is not registered with your authority any more'],
  ['scope_withdrawn', 'what it asked for no longer has the scopes that the call needs'],
  ['ungoverned', 'no tier of yours says on which terms it may use what it asked for'],
  ['suspended', 'whoever runs your authority suspended your access'],
  ['no_scope', 'nothing that the call needs is both offered and allowed'],
  ['not_shared', 'your organization does not share what it asked for'],
])

const REASONS: ReadonlyMap<unknown, string> = new Map([
  ['policy', 'your rules refuse it'],
  ['agent_blocked', 'you blocked it'],
  ['operator_blocked', 'you blocked its operator'],
  ['queue_full', 'too many requests wait for you'],
  ['too_many_grants', 'you have reached the limit on grants'],
  ['clearance_unmet', 'it needs a clearance that nobody attests'],
  ['not_delegated', 'your organization lets no such agent use it'],
  ['ended_by_organization', 'an administrator of your organization ended its access'],
])

/** A reason that has no words here, such as one of a later version, is shown as it is. */
function refusedSentence({ who, of, entry }: SentenceParts): string {
  const reason = entry['reason']
  if (reason === 'declined') return `${who} declined your terms, or took its request back.`
  const early = entry.handle === undefined ? BEFORE_IDENTITY.get(reason) : undefined
  const why = early ?? BEFORE_IDENTITY.get(reason) ?? REASONS.get(reason) ?? of('reason')
  const whom = early === undefined ? who : 'An agent'
  return `${whom} was refused: ${why}${timesText(entry)}.`
}

const ENDED_WITH: ReadonlyMap<unknown, string> = new Map([
  ['revocation', 'A request ended, because you ended the access of its agent.'],
  ['block', 'A request ended, because you blocked its agent or its operator.'],
  ['leaving', 'A request ended, because you left the account that it was about.'],
])

function deniedSentence(parts: SentenceParts): string {
  const { entry, whom, resource } = parts
  const place = entry['resource_id'] === undefined ? '' : ` at ${resource}`
  return ENDED_WITH.get(entry['by']) ?? `${decider(parts)} denied what ${whom} asked${place}.`
}

/** By her name for it, else where it is. */
function subscriber({ entry: { name }, of }: SentenceParts): string {
  return typeof name === 'string' && name !== '' ? `"${name}"` : of('origin')
}

/**
 * When an entry happened, in milliseconds since the epoch, and how much later it was reported. A call has the
 * time at which its enforcement point let it through; anything else happened when it was written.
 */
export interface HappenedAt {
  ms: number
  /** Whether only its second is known. */
  isWholeSecond: boolean
  /** Undefined if nobody reported it, or if only the second is known. Negative if the clocks differ. */
  reportedAfterMs: number | undefined
}

/** `ts` is ISO 8601; `at` has seconds and `at_ms` milliseconds since the epoch. */
export function happenedAt({ kind, ts, at, at_ms }: LedgerEntry): HappenedAt {
  const written = Date.parse(ts)
  if (kind !== 'touched') return { ms: written, isWholeSecond: false, reportedAfterMs: undefined }
  if (typeof at_ms === 'number') return { ms: at_ms, isWholeSecond: false, reportedAfterMs: written - at_ms }
  if (typeof at === 'number') return { ms: at * 1_000, isWholeSecond: true, reportedAfterMs: undefined }
  return { ms: written, isWholeSecond: false, reportedAfterMs: undefined }
}

/** ` Reported 0.2 s later.`; empty if that is not known. */
export function reportedText({ reportedAfterMs: after }: HappenedAt): string {
  if (after === undefined || Number.isNaN(after)) return ''
  if (after < 0)
    return ` Reported ${(-after / 1_000).toFixed(1)} s before that by the clock of your authority: the clocks differ.`
  return ` Reported ${(after / 1_000).toFixed(1)} s later.`
}
