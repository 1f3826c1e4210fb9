/**
 * Owns the entry of the bridge in a JSON file that somebody else wrote. Contract: "What the service does":
 * the client stays as it is; everything else in its file is left byte for byte as it was written, even
 * numbers that no double can carry.
 */
import type { Json, JsonObject } from '../../../wire/json.ts'

/** A member of an object as it is written: where its name begins, and where its value begins and ends. */
interface Member {
  name: string
  start: number
  from: number
  to: number
}

/** The layout of added text: what comes before a name, and one step of indentation. */
interface Layout {
  /** The white space before the first name of the object; undefined if the object is empty. */
  lead: string | undefined
  /** The line end and the white space before the brace that closes the object; empty on one line. */
  outer: string
  /** One step of indentation; undefined in a file that is written on one line. */
  step: string | undefined
}

const STEP = '  '

/**
 * The text of a file whose object has `value` as the member `inner` of its member `outer`, both made if they
 * do not exist; everything else stays as it was. `text` is JSON that was parsed, and an object, in which each
 * name occurs once; `outer` is an object, null, or not there.
 */
export function withEntry(
  text: string,
  [outer, inner]: readonly [string, string],
  value: JsonObject,
): string {
  const open = text.indexOf('{')
  const all = membersOf(text, open)
  const newline = text.includes('\r\n') ? '\r\n' : '\n'
  const lead = leadOf(text, open, all)
  const isLong = lead === undefined || lead.includes('\n')
  const step = isLong ? lead?.slice(lead.lastIndexOf('\n') + 1) || STEP : undefined
  const top: Layout = { lead, outer: isLong ? newline : '', step }
  const servers = all.find(({ name }) => name === outer)
  if (servers === undefined || text.slice(servers.from, servers.to) === 'null')
    return withMember(text, { open, all, name: outer, value: { [inner]: value } }, top)
  const within = membersOf(text, servers.from)
  const below: Layout = {
    lead: leadOf(text, servers.from, within),
    outer: isLong ? `${newline}${step}` : '',
    step,
  }
  return withMember(text, { open: servers.from, all: within, name: inner, value }, below)
}

/** The text with a member of one of its objects in place of that of the same name, or as its last. */
function withMember(
  text: string,
  { open, all, name, value }: { open: number; all: Member[]; name: string; value: Json },
  { lead, outer, step }: Layout,
): string {
  const first = all[0]
  const before = lead ?? (step === undefined ? '' : outer + step)
  const written = laidOut(value, before, step)
  const there = all.find(one => one.name === name)
  if (there !== undefined) return text.slice(0, there.from) + written + text.slice(there.to)
  const colon = first === undefined ? (step === undefined ? ':' : ': ') : separatorOf(text, first)
  const added = `${before}${JSON.stringify(name)}${colon}${written}`
  if (first === undefined)
    return `${text.slice(0, open + 1)}${added}${outer}${text.slice(closing(text, open))}`
  const { to } = all.at(-1)!
  return `${text.slice(0, to)},${added}${text.slice(to)}`
}

/** The value on lines of its own below `before`, or on one line. */
function laidOut(value: Json, before: string, step: string | undefined): string {
  if (step === undefined || !before.includes('\n')) return JSON.stringify(value)
  return JSON.stringify(value, null, step).replaceAll('\n', before)
}

/** Empty lines before the first name are not repeated. */
function leadOf(text: string, open: number, [first]: Member[]): string | undefined {
  return first && text.slice(open + 1, first.start).replace(/^[^]*?(?=\r?\n[^\n]*$)/, '')
}

function separatorOf(text: string, { start, from }: Member): string {
  return text.slice(endOfValue(text, start), from)
}

/** The members of the object that opens at `open`. */
function membersOf(text: string, open: number): Member[] {
  const all: Member[] = []
  let at = afterSpace(text, open + 1)
  while (text[at] !== '}') {
    const start = at
    const named = endOfValue(text, start)
    const from = afterSpace(text, afterSpace(text, named) + 1)
    const to = endOfValue(text, from)
    all.push({ name: JSON.parse(text.slice(start, named)) as string, start, from, to })
    at = afterSpace(text, to)
    if (text[at] === ',') at = afterSpace(text, at + 1)
  }
  return all
}

/** The position of the last brace of the object that opens at `open`. */
function closing(text: string, open: number): number {
  return endOfValue(text, open) - 1
}

function afterSpace(text: string, at: number): number {
  let next = at
  while (/\s/.test(text.charAt(next))) next++
  return next
}

const JSON_TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|[[\]{}]|[^\s,:"[\]{}]+|[\s,:]+/y

/** The position at which the value that begins at `at` ends. */
function endOfValue(text: string, at: number): number {
  let depth = 0
  JSON_TOKEN.lastIndex = at
  do {
    const [token] = JSON_TOKEN.exec(text)!
    if (token === '{' || token === '[') depth++
    else if (token === '}' || token === ']') depth--
  } while (depth > 0)
  return JSON_TOKEN.lastIndex
}
