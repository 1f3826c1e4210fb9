/**
 * Owns `usher sidecar explain`: why a call was let through or refused, according to the sidecar's log.
 * Contract: "Events" (one log line per decision). It sends no request: the log line alone says why a call was
 * refused.
 */
import { open } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import { explainLine, type DecisionLine } from './words.ts'

/** A line that is longer than this is not ours. */
const LINE_CHARACTERS_MAX = 65_536
const SHOWN_MAX = 20

/**
 * Explains one decision line, or those of a log about a negotiation, an agent, a request or an owner.
 * @param query a line of the log as it stands there, or by what to find lines: the beginning of a family or
 *   a handle, a request id, or an owner, of whom refusals alone are told.
 * @param log the file of the log, `-` for standard input; needed for all but a line.
 * @returns the lines to show. @throws Error saying what to give, if nothing can be explained.
 */
export async function explain(query: string, log: string | undefined): Promise<string[]> {
  if (query.trimStart().startsWith('{')) {
    const line = decisionIn(query)
    if (line === undefined)
      throw new Error(
        'This is no decision of a sidecar: give a line whose msg is "decided", whole and in quotes.',
      )
    return explainLine(line)
  }
  if (log === undefined)
    throw new Error(
      `Name the log that may hold ${query}: --log <file>, or --log - for standard input. Without one, give a line of it in quotes.`,
    )
  const found = await decisionsOf(query, log)
  if (found.length === 0)
    throw new Error(
      `No decision about ${query} is in this log. What was refused before it was known whose it is names none: look for the request id that the gateway gave it.`,
    )
  return repeatsOf(found).flatMap((same, at) => [...(at === 0 ? [] : ['']), ...explainRepeats(same)])
}

/** Decisions that follow one another and differ in nothing that is shown but their time. */
function repeatsOf(lines: readonly DecisionLine[]): DecisionLine[][] {
  const groups: DecisionLine[][] = []
  let before: string | undefined
  for (const line of lines) {
    const text = explainLine({ ...line, time: undefined }).join('\n')
    if (text === before) groups.at(-1)!.push(line)
    else groups.push([line])
    before = text
  }
  return groups
}

/** The same decision is explained once, with how often it was made and when last. */
function explainRepeats(same: readonly DecisionLine[]): string[] {
  const [first, ...others] = explainLine(same[0]!)
  if (same.length === 1) return [first!, ...others]
  const last = same.at(-1)!.time
  const until = typeof last === 'string' && last !== '' ? `, the last time at ${last}` : ''
  return [first!, `The same happened ${same.length} times${until}.`, ...others]
}

/** The newest decisions about it. */
async function decisionsOf(query: string, log: string): Promise<DecisionLine[]> {
  const found: DecisionLine[] = []
  for await (const text of await linesOf(log)) {
    const line = decisionIn(text)
    if (line === undefined || !isAbout(line, query)) continue
    found.push(line)
    if (found.length > SHOWN_MAX) found.shift()
  }
  return found
}

/**
 * At least these many characters must be given of a family or a handle; with fewer, unrelated lines would
 * match.
 */
const BEGINNING_MIN = 8

function isAbout({ family, handle, request_id, owner, decision }: DecisionLine, query: string): boolean {
  const begins = (name: unknown): boolean =>
    name === query || (typeof name === 'string' && query.length >= BEGINNING_MIN && name.startsWith(query))
  return begins(family) || begins(handle) || request_id === query || (owner === query && decision === 'deny')
}

async function linesOf(log: string): Promise<AsyncIterable<string>> {
  if (log === '-') return createInterface({ input: process.stdin, crlfDelay: Infinity })
  try {
    return (await open(log)).readLines()
  } catch (cause) {
    throw new Error(`--log: ${log} cannot be read: give the file of the log.`, { cause })
  }
}

/** The decision in a line. A prefix that a container runtime added is skipped. */
function decisionIn(text: string): DecisionLine | undefined {
  const begin = text.indexOf('{')
  if (begin < 0 || text.length > LINE_CHARACTERS_MAX) return undefined
  try {
    const line = JSON.parse(text.slice(begin)) as { decision?: unknown } | null
    return typeof line?.decision === 'string' ? (line as DecisionLine) : undefined
  } catch {
    return undefined
  }
}
