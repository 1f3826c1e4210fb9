/**
 * Owns what the sidecar's file says about MCP methods other than `tools/call`: which tool's grant each
 * needs. Contract: "Authorized call" (the tool maps to a resource): configured, never taken from a request.
 */
import { z } from 'zod'

/** Each method is `free`, or names the tool whose grant it needs. */
export const methods = z.record(
  z.string(),
  z.union(
    [
      z.literal('free'),
      z.strictObject({
        tool: z.string(),
        uris: z.record(z.string(), z.string()).optional(),
        names: z.record(z.string(), z.string()).optional(),
      }),
    ],
    { error: 'give free, or {tool: …}, with uris or names if some of its objects have tools of their own' },
  ),
)

/**
 * Names no JSON-RPC method: the HTTP method that opens the stream of a session (MCP 2025-11-25). Under a
 * grant it is one of `open_methods`; here it can only be free.
 */
const STREAM_METHOD = 'GET'
const METHOD = /^[a-z][A-Za-z0-9]{0,63}(?:\/[A-Za-z0-9]{1,64}){1,3}$/
/** These always pass, or are judged by the tool that they name. */
const SETTLED: ReadonlySet<string> = new Set(['server/discover', 'tools/list', 'tools/call'])
/** A scheme in lower case, then plain text and placeholders: an escape is a second spelling. */
const TEMPLATE =
  /^[a-z][a-z0-9+.-]*:(?:[\x21-\x24\x26-\x5b\x5d-\x7a\x7c\x7e]|\{\+?[A-Za-z0-9_]{1,64}\}){1,1000}$/
const SEGMENT_READ_TWO_WAYS = /\/\.{1,2}(?:[/?#]|$)|[^:/]\/\/|\/{4}/

/** The part of a resource's entry that its methods must agree with. */
interface MethodEntry {
  at: string
  api?: unknown
  tools: readonly { tool: string }[]
  methods?: z.output<typeof methods> | undefined
}

/** A sentence for each method that contradicts the rest of the file. */
export function methodFaults(
  { at, api, tools, methods: mapped = {} }: MethodEntry,
  openMethods: readonly string[],
): string[] {
  const names = new Set(tools.map(({ tool }) => tool))
  const entries = Object.entries(mapped)
  if (entries.length > 0 && api !== undefined)
    return [`methods of ${at}: leave them out, a plain API has none.`]
  return entries.flatMap(([method, rule]) => {
    const faults = nameFaults(method, rule, openMethods).map(fault => `methods of ${at}: ${method} ${fault}`)
    if (rule === 'free') return faults
    const { tool, uris = {}, names: prompts = {} } = rule
    const named = [tool, ...Object.values(uris), ...Object.values(prompts)]
    return [
      ...faults,
      ...Object.keys(uris).flatMap(uri =>
        isTemplate(uri)
          ? []
          : [
              `methods of ${at}: give ${JSON.stringify(uri)} as an absolute URI template, such as file:///reports/{name}, without escapes, dot segments and empty segments, with at most one placeholder in a segment and one {+path}.`,
            ],
      ),
      ...[...new Set(named)]
        .filter(name => !names.has(name))
        .map(name => `methods of ${at}: ${method} names ${name}, which is none of tools.`),
      ...(Object.keys(uris).length > 0 && !takesUris(method)
        ? [`methods of ${at}: ${method} is not about a resource: leave uris out.`]
        : []),
      ...(Object.keys(prompts).length > 0 && !takesNames(method)
        ? [`methods of ${at}: ${method} is not about a prompt: leave names out.`]
        : []),
    ]
  })
}

const COMPLETION = 'completion/complete'
const takesUris = (method: string): boolean => method.startsWith('resources/') || method === COMPLETION
const takesNames = (method: string): boolean => method.startsWith('prompts/') || method === COMPLETION

function nameFaults(
  method: string,
  rule: z.output<typeof methods>[string],
  openMethods: readonly string[],
): string[] {
  if (SETTLED.has(method) || method.startsWith('notifications/'))
    return ['passes, or is judged by the tool that it names, whatever is said here: leave it out.']
  if (method === STREAM_METHOD && rule !== 'free')
    return ['is the stream of a session, which is no call of a tool: say free, or name it in open_methods.']
  if (method !== STREAM_METHOD && !METHOD.test(method))
    return ['is no JSON-RPC method of MCP, such as resources/read.']
  return openMethods.includes(method) ? ['is in open_methods, too; keep one of the two.'] : []
}

/**
 * One placeholder in a segment, and one path in the whole: otherwise there would be two ways to read a URI,
 * and the time to try them all would grow with a power of its length.
 */
function isTemplate(text: string): boolean {
  const placeholders = (part: string): number => part.split('{').length - 1
  const isClear = text.split('/').every(part => placeholders(part) <= 1) && text.split('{+').length <= 2
  return TEMPLATE.test(text) && !SEGMENT_READ_TWO_WAYS.test(text) && isClear
}
