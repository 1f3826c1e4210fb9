/**
 * Owns what a client is told where there is no answer of the tool: in words that a model can act on, and in
 * `_meta` for programs. Contract: "Errors": an outage is never told as a denial, nor a denial as an outage;
 * and no token is ever part of it.
 */
import type { CallToolResult } from '@modelcontextprotocol/server'
import { AgentError } from '../agent-error.ts'
import { foreignLine, foreignWhole } from './foreign-text.ts'
import type { Stage } from './stage.ts'

/** Members of `_meta` in an answer of the bridge's own. */
export const META = { family: 'usher/family', reason: 'usher/reason', since: 'usher/since' } as const

type Waiting = Extract<Stage, { name: 'waiting' }>

/**
 * The owner has not decided. It is no error, unless the tool promises structured answers: clients refuse one
 * that has none, and an error is exempt.
 */
export function waitingResult(tool: string, waiting: Waiting, structured: boolean): CallToolResult {
  return {
    content: [{ type: 'text', text: waitingText(tool, waiting) }],
    ...(structured ? { isError: true } : {}),
    _meta: {
      [META.reason]: 'waiting',
      [META.family]: foreignLine(waiting.family),
      [META.since]: isoTime(waiting.since),
    },
  }
}

/** Who decides, since when, and what to do. */
export function waitingText(tool: string, { owner, since, kind }: Waiting): string {
  const what = kind === 'connection' ? 'whether this agent may use her tools' : 'about this very call'
  return (
    `Nothing was done yet. The owner (${foreignLine(owner)}) decides ${what}; she was asked at ${isoTime(since)}. ` +
    `Call ${foreignLine(tool)} again with the same arguments later: it joins the same request, and asks her nothing new.`
  )
}

/** A call that came to nothing. */
export function errorResult(error: AgentError, family: string | undefined): CallToolResult {
  return {
    content: [{ type: 'text', text: `${sentence(error)} ${ADVICE[error.code] ?? adviceOf(error)}` }],
    isError: true,
    _meta: {
      [META.reason]: foreignLine(error.code),
      ...(family === undefined || family === '' ? {} : { [META.family]: foreignLine(family) }),
      'usher/terminal': error.terminal,
      ...(error.retryAfterSeconds === undefined ? {} : { 'usher/retry_after': error.retryAfterSeconds }),
    },
  }
}

/** What an error says, with nothing in it that looks like a token. */
export function sentence({ detail, code }: AgentError): string {
  const withoutTokens = detail.replaceAll(
    /[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}/g,
    '[token]',
  )
  // Terms are told whole, and have been bounded.
  const shown = code === 'terms_unanswered' ? foreignWhole(withoutTokens) : foreignLine(withoutTokens)
  return `${shown} (${foreignLine(code)})`
}

const ADVICE: Readonly<Record<string, string>> = {
  access_revoked: 'The owner ended this access. Do not call it again; only she can open it.',
  request_denied: 'The owner, or a rule of hers, decided so. Do not call it again unless she says so.',
  terms_declined: 'The terms were declined, so nothing was done.',
  terms_unanswered: 'Nobody agreed to the terms, so nothing was done.',
  outcome_unknown: 'Find out by another tool, or ask the person, before you repeat it.',
  state_unusable: 'Nothing was sent. Free space, or let the bridge read and write there; then call again.',
  temporarily_unavailable: 'It is an outage, not a decision. Try again in a minute.',
  unreachable: 'It is an outage, not a decision. Try again in a minute.',
}

function adviceOf({ terminal, retryAfterSeconds }: AgentError): string {
  if (terminal) return 'Calling it again changes nothing.'
  return `Try again in ${retryAfterSeconds ?? 60} seconds.`
}

function isoTime(seconds: number): string {
  return `${new Date(seconds * 1000).toISOString().slice(0, 19)}Z`
}
