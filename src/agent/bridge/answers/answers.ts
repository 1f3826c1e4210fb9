/**
 * Owns the client's answer if the tool gave none: in words that a model can act on, and in `_meta` for
 * programs. Contract: "Errors": an outage is never reported as a denial, nor a denial as an outage; and an
 * answer never contains a token.
 */
import type { CallToolResult } from '@modelcontextprotocol/server'
import { isJsonObject, type Json } from '../../../wire/json.ts'
import { AgentError } from '../../agent-error.ts'
import { nameAsWritten } from './as-written.ts'
import { foreignLine, foreignWhole } from './foreign-text.ts'
import type { Stage } from '../negotiation/stage.ts'

/** Members of `_meta` in an answer of the bridge's own. */
export const ANSWER_META = { family: 'usher/family', reason: 'usher/reason', since: 'usher/since' } as const

/** Only the bridge may use these names. */
const OUR_META = /^usher\//

/** A resource's answer, without marks that a program could attribute to the bridge. */
export function withoutOurMarks(result: Json): Json {
  if (!isJsonObject(result) || !isJsonObject(result['_meta'])) return result
  const theirs = withoutOurNames(result['_meta'])
  return theirs === result['_meta'] ? result : { ...result, _meta: theirs }
}

/** A value without members that have our names; the same value if it has none. */
export function withoutOurNames<T>(value: T): T {
  if (!isJsonObject(value)) return value
  const members = Object.entries(value)
  const theirs = members.filter(([name]) => !OUR_META.test(nameAsWritten(name)))
  return theirs.length === members.length ? value : (Object.fromEntries(theirs) as T)
}

/** The call waits for another party: the owner, or the resource that was sent what she approved. */
export type Waiting = Extract<Stage, { name: 'waiting' | 'approved' }>

/**
 * The owner has not decided, or what she approved has no answer yet. It is no error, unless the tool promises
 * structured answers: clients refuse a result without one, but accept an error.
 */
export function waitingResult(tool: string, waiting: Waiting, structured: boolean): CallToolResult {
  return {
    content: [{ type: 'text', text: waitingText(tool, waiting) }],
    ...(structured ? { isError: true } : {}),
    _meta: {
      [ANSWER_META.reason]: waiting.name,
      [ANSWER_META.family]: foreignLine(waiting.family),
      ...(waiting.name === 'waiting' ? { [ANSWER_META.since]: isoTime(waiting.since) } : {}),
    },
  }
}

const DECIDES = { connection: 'whether this agent may use her tools', operation: 'about this very call' }

/** Who decides, since when, and what to do. */
export function waitingText(tool: string, waiting: Waiting): string {
  if (waiting.name === 'approved') return approvedText(tool, waiting)
  const { owner, since, kind } = waiting
  const what = kind === undefined ? '' : ` ${DECIDES[kind]}`
  return (
    `Nothing was done yet. The owner (${foreignLine(owner)}) decides${what}; she was asked at ${isoTime(since)}. ` +
    `Call ${foreignLine(tool)} again with the same arguments later: it joins the same request, and asks her nothing new.`
  )
}

function approvedText(tool: string, { owner, sent }: Extract<Waiting, { name: 'approved' }>): string {
  const what = sent
    ? 'it was sent, and no answer has come yet, so it may have run'
    : 'it is sent once while somebody waits for it'
  return (
    `The owner (${foreignLine(owner)}) approved this very call: ${what}. ` +
    `Call ${foreignLine(tool)} again with the same arguments later: it joins this call, and makes no second one.`
  )
}

/** A failed call. */
export function errorResult(error: AgentError, family: string | undefined): CallToolResult {
  return {
    content: [{ type: 'text', text: `${sentence(error)} ${adviceOf(error, family)}` }],
    isError: true,
    _meta: marksOf(error, family),
  }
}

/** The part for programs of a call, or another request, that failed. */
export function marksOf(error: AgentError, family: string | undefined): Record<string, Json> {
  return {
    [ANSWER_META.reason]: foreignLine(error.code),
    ...(family === undefined || family === '' ? {} : { [ANSWER_META.family]: foreignLine(family) }),
    'usher/terminal': error.terminal,
    ...(error.terminal ? {} : { 'usher/retry_after': secondsUntilRetry(error) }),
  }
}

/**
 * The text of an error, without anything that looks like a token. Text of others is put between quotation
 * marks that it cannot close, and attributed.
 */
export function sentence({ detail, code, by }: AgentError): string {
  const withoutTokens = detail.replaceAll(
    /[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}/g,
    '[token]',
  )
  // Terms are shown whole; their length has been bounded.
  const shown = code === 'terms_unanswered' ? foreignWhole(withoutTokens) : foreignLine(withoutTokens)
  const report = by === undefined ? shown : `The ${by} says: "${shown.replaceAll('"', "'")}"`
  return `${report} (${foreignLine(code)})`
}

/** Keyed by code, which a stranger may have chosen. */
const ADVICE: ReadonlyMap<string, string> = new Map([
  [
    'access_revoked',
    'This access has ended: the owner ended it, or an organization that it hung on. ' +
      'Do not call it again; only the person who ended it can open it again.',
  ],
  ['request_denied', 'The owner, or a rule of hers, decided so. Do not call it again unless she says so.'],
  ['terms_declined', 'The terms were declined, so nothing was done.'],
  ['terms_unanswered', 'Nobody agreed to the terms, so nothing was done.'],
  ['outcome_unknown', 'Find out by another tool, or ask the person, before you repeat it.'],
])

const OUTAGES: ReadonlySet<string> = new Set(['temporarily_unavailable', 'unreachable'])
const RETRY_SECONDS = 60

/** If a record cannot be read, an earlier process may have made the call. */
const NOT_MADE = 'This time the call was not made.'

function adviceOf(error: AgentError, family: string | undefined): string {
  const known = ADVICE.get(error.code)
  if (known !== undefined) return error.by === 'resource' ? byItsWord(known) : known
  if (error.code === 'state_unusable')
    return error.terminal
      ? NOT_MADE
      : `${NOT_MADE} Free space, or let the bridge read and write there; then call again.`
  if (error.terminal) return 'Calling it again changes nothing.'
  const seconds = secondsUntilRetry(error)
  const when = `Try again in ${seconds === 1 ? 'a second' : `${seconds} seconds`}.`
  if (!OUTAGES.has(error.code)) return when
  const approved = family === undefined ? '' : ', and what was approved stays approved'
  const unspent = error.unspent ? ` The call was not made${approved}.` : ''
  return `It is an outage, not a decision.${unspent} ${when}`
}

/** We found this ourselves: neither the owner nor her authority said so. */
function byItsWord(advice: string): string {
  return `By its word, ${advice.charAt(0).toLowerCase()}${advice.slice(1)}`
}

function secondsUntilRetry({ retryAfterSeconds = RETRY_SECONDS }: AgentError): number {
  return retryAfterSeconds
}

function isoTime(seconds: number): string {
  return `${new Date(seconds * 1000).toISOString().slice(0, 19)}Z`
}
