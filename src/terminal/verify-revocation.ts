/**
 * Owns `usher verify revocation`: whether calls on record came after the access was ended, and who is at
 * fault then. It asks nobody. docs/choices.md, "Revocations that prove themselves". Contract: "What the
 * service does" (row 9: revocation is immediate).
 */
import { createReadStream } from 'node:fs'
import { text } from 'node:stream/consumers'
import {
  endedGrants,
  judgeCall,
  parseJwks,
  readRecordedCall,
  USUAL_BOUNDS,
  verifyLedgerHead,
  verifyRevocation,
  type CallBounds,
  type CallOutside,
  type CallVerdict,
  type EndedGrants,
  type PublishedKey,
  type RecordedCall,
  type RevocationClaims,
} from '../verify/index.ts'
import { asHandle, type Handle } from '../wire/identifiers.ts'
import { isJsonObject, parseJson, parseJsonObject } from '../wire/json.ts'
import { isCompact, member, optionalText, textMember, textsMember } from '../wire/json-members.ts'
import { tagOfOrigin } from '../wire/ledger/ledger-head.ts'
import { REVOCATION_BYTES_MAX } from '../wire/ledger/revocation.ts'
import { Refusal, refuse } from '../wire/refusal.ts'
import { parseJws } from '../wire/signatures/jws.ts'
import { keyNamed } from '../wire/signatures/keys.ts'
import { EXIT, Exit, UsageError, type Terminal } from './command.ts'
import { printable } from './printable.ts'
import { linesOf } from './verify-files.ts'

/** What the command line says; `keys`, `calls` and `ended` are paths of files. */
export interface VerifyRevocationOptions {
  keys: string
  calls: readonly string[]
  /** The handles that ended, where the revocation has only their hash. */
  ended?: string | undefined
  /** In milliseconds, as `CallBounds`. */
  timeOut?: number | undefined
  lease?: number | undefined
}

/**
 * Prints a line for each call that is judged, and what the verdicts rest on. `document` is the revocation, or
 * the file that it is in (`-`: the standard input). Fails with exit code 1 if somebody is at fault or the
 * revocation does not hold, and with `UsageError` if a file cannot be read. `now` in seconds.
 */
export async function verifyRevocationCalls(
  document: string,
  options: VerifyRevocationOptions,
  { terminal, now }: { terminal: Terminal; now: number },
): Promise<void> {
  if ([document, ...options.calls].filter(path => path === '-').length > 1)
    throw new UsageError('Give - once: the input is either the revocation or a log.')
  const keys = await readKeys(options.keys)
  const compact = isRevocation(document) ? document : (await readText(document)).trim()
  const { claims, isHeadSigned } = verifyClaims(compact, { keys, now, terminal })
  const grants = grantsOf(claims, await readHandles(options.ended))
  const bounds = {
    timeOutMs: options.timeOut ?? USUAL_BOUNDS.timeOutMs,
    leaseMs: options.lease ?? USUAL_BOUNDS.leaseMs,
  }
  const logs = await judgeLogs(options.calls, grants, bounds)
  terminal.out(`${printable(headSentence(claims, grants, isHeadSigned))}\n`)
  for (const line of logs.lines) terminal.out(`${printable(line)}\n`)
  terminal.out(`${summaryOf(logs)}\n`)
  if (logs.unnamed > 0) terminal.out(`${unnamedSentence(logs.unnamed, claims.iss)}\n`)
  terminal.out(`${RESTS_ON}\n`)
  if (AT_FAULT.some(verdict => logs.verdicts[verdict] > 0)) throw new Exit(EXIT.refused)
}

/** Whether an argument is a JWT itself, and no path: the header of each begins so. */
const isRevocation = (text: string): boolean => text.startsWith('eyJ') && isCompact(text)

const AT_FAULT = ['authority at fault', 'enforcement point at fault'] as const satisfies CallVerdict[]
const RESTS_ON =
  'Each verdict rests on the word of the enforcement point: nobody signed `judged`, and what its log leaves out is judged by nothing.'

interface RevocationKeys {
  issuer: string | undefined
  authority: readonly PublishedKey[]
  /** Undefined if the file does not tell them from those of the authority. */
  log: readonly PublishedKey[] | undefined
}

/** `{issuer, keys, log_keys}`; or a JWKS of the authority, in which keys of the log may stand, too. */
async function readKeys(path: string): Promise<RevocationKeys> {
  const source = await readText(path)
  try {
    const file = parseJsonObject(source)
    const log = member(file, 'log_keys')
    const keys = {
      issuer: optionalText(file, 'issuer'),
      authority: parseJwks({ keys: member(file, 'keys') ?? [] }),
      log: log === undefined ? undefined : parseJwks(isJsonObject(log) ? log : { keys: log }),
    }
    if (keys.authority.length > 0 && keys.log?.length !== 0) return keys
  } catch (cause) {
    if (!(cause instanceof Refusal)) throw cause
  }
  throw new UsageError(
    `${path} lacks keys: give {issuer, keys, log_keys}, with what the authority publishes at /jwks and /ledger/jwks.`,
  )
}

/** The claims of a revocation that holds, and whether a key of the log that is known signed its head. */
function verifyClaims(
  compact: string,
  { keys, now, terminal }: { keys: RevocationKeys; now: number; terminal: Terminal },
): { claims: RevocationClaims; isHeadSigned: boolean } {
  try {
    const issuer = keys.issuer ?? textMember(parseJws(compact, REVOCATION_BYTES_MAX).payload, 'iss')
    const claims = verifyRevocation(compact, keys.authority, { issuer, now })
    const { ledger_head: head } = claims
    if (tagOfOrigin(head.origin, issuer) === undefined)
      refuse('invalid_request', 'Its ledger_head is of another authority.')
    const isKeyKnown = keys.log !== undefined || keyNamed(keys.authority, head.kid) !== undefined
    if (isKeyKnown) verifyLedgerHead(head, keys.log ?? keys.authority)
    return { claims, isHeadSigned: isKeyKnown }
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    terminal.err(`This revocation does not hold: ${printable(error.detail ?? error.code)}\n`)
    throw new Exit(EXIT.refused)
  }
}

function grantsOf(claims: RevocationClaims, handles: readonly Handle[] | undefined): EndedGrants {
  try {
    return endedGrants(claims, handles)
  } catch (cause) {
    if (!(cause instanceof Refusal)) throw cause
    throw new UsageError(`--ended: ${cause.detail ?? cause.code}`, { cause })
  }
}

/** More than any act ends. */
const HANDLES_MAX = 1_000_000

/** A JSON list, or an object that has it as `ended`, such as the entry of the ledger. */
async function readHandles(path: string | undefined): Promise<Handle[] | undefined> {
  if (path === undefined) return undefined
  const source = await readText(path)
  try {
    const value = parseJson(source)
    const entry = isJsonObject(value) ? value : { ended: value }
    return textsMember(entry, 'ended', false, HANDLES_MAX).map(asHandle)
  } catch (cause) {
    if (!(cause instanceof Refusal)) throw cause
    throw new UsageError(`${path} lists no handles: ${cause.detail ?? cause.code}`, { cause })
  }
}

/** What was found in logs. */
interface JudgedLogs {
  /** One for each call that was judged. */
  lines: string[]
  verdicts: Record<CallVerdict, number>
  outside: Record<CallOutside, number>
  /** Calls that were judged, and whose record names no authority. */
  unnamed: number
  /** Lines that tell of no call. */
  other: number
}

async function judgeLogs(
  paths: readonly string[],
  grants: EndedGrants,
  bounds: CallBounds,
): Promise<JudgedLogs> {
  const logs: JudgedLogs = {
    lines: [],
    verdicts: { 'in order': 0, undecided: 0, 'authority at fault': 0, 'enforcement point at fault': 0 },
    outside: { 'other authority': 0, 'other grant': 0, 'later grant': 0, refused: 0 },
    unnamed: 0,
    other: 0,
  }
  for (const path of paths) {
    let [number, calls] = [0, 0]
    for await (const line of linesOf(path, { fatal: false })) {
      const from = `${path}:${++number}`
      const call = callIn(line, from)
      if (call === undefined) {
        if (line.trim() !== '') logs.other += 1
        continue
      }
      calls += 1
      const judgement = judgeCall(call, grants, bounds)
      if (judgement.verdict === undefined) {
        logs.outside[judgement.outside] += 1
        continue
      }
      const { verdict, sentence } = judgement
      logs.verdicts[verdict] += 1
      if (call.issuer === undefined) logs.unnamed += 1
      const at = new Date(call.time).toISOString()
      logs.lines.push(`${verdict}: ${from}: ${at} ${call.handle!}: ${sentence}`)
    }
    if (calls === 0)
      throw new UsageError(`${path} tells of no call: give the log of an enforcement point, as it wrote it.`)
  }
  return logs
}

function callIn(line: string, from: string): RecordedCall | undefined {
  try {
    return readRecordedCall(line)
  } catch (cause) {
    if (!(cause instanceof Refusal)) throw cause
    throw new UsageError(`${from} is no line of the log, or not a whole one: ${cause.detail ?? cause.code}`, {
      cause,
    })
  }
}

function headSentence(claims: RevocationClaims, { ended }: EndedGrants, isHeadSigned: boolean): string {
  const { jti, iss, owner, seq } = claims
  const agents = ended.size === 1 ? 'one agent' : `${ended.size} agents`
  const what = `The revocation ${jti} of ${owner} at ${iss} ended the access of ${agents}`
  const where = isHeadSigned
    ? `by entry ${seq} of a ledger whose head the log signed.`
    : `You gave no key of the log that its head names, so nothing shows that a ledger has its entry ${seq}.`
  return `${what}${isHeadSigned ? ', ' : '. '}${where} ${completeSentence(claims)}`
}

/** Whoever signs late excuses the calls until then, so people must see how late that was. */
function completeSentence({ iat, at }: RevocationClaims): string {
  const seconds = Math.max(0, Math.ceil(at / 1_000 - iat))
  return `It was complete ${seconds} s after the act, at ${new Date(at).toISOString()}: a call that the authority judged before that is in order.`
}

function summaryOf({ verdicts, outside, other }: JudgedLogs): string {
  const judged = Object.values(verdicts).reduce((sum, count) => sum + count, 0)
  const counts = Object.entries(verdicts).map(([verdict, count]) => `${verdict} ${count}`)
  return (
    `Calls judged: ${judged} (${counts.join(', ')}). ` +
    `Not judged: ${outside['other authority']} that another authority judged, ` +
    `${outside['other grant']} of grants that it did not end, ` +
    `${outside['later grant']} of grants that may be of after it, ${outside.refused} that were refused. ` +
    `Lines that tell of no call: ${other}.`
  )
}

/** A log of before the decision log named the authority. */
const unnamedSentence = (count: number, issuer: string): string =>
  `Of ${count} of these calls the log says whose they were, and not which authority judged them: ` +
  `give the log of the time at which the owner was at ${printable(issuer)}.`

async function readText(path: string): Promise<string> {
  try {
    return await text(path === '-' ? process.stdin : createReadStream(path))
  } catch (cause) {
    throw new UsageError(`${path} cannot be read.`, { cause })
  }
}
