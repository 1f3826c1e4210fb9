/**
 * Owns the comparison of what a server lists with what a sidecar's file says about it. Contract: "Authorized
 * call": what is configured counts, so a tool that is new is refused, and one that has become graver is still
 * called by the grants of before, until somebody looks.
 */
import type { ProposedTool, Proposal } from './block.ts'

/** What the file says, as far as it is compared. */
interface Configured {
  tools: readonly {
    tool: string
    when?: unknown
    as?: string | undefined
    consequence?: string | undefined
  }[]
  methods: Readonly<
    Record<string, 'free' | { tool: string; uris?: object | undefined; names?: object | undefined }>
  >
  openMethods: readonly string[]
  /** By tool, the hash that stood in the block when the entry was written. */
  definitions: ReadonlyMap<string, string>
  /** Tools and methods that were left out on purpose. */
  leftOut: ReadonlySet<string>
}

interface Difference {
  kind: 'new' | 'gone' | 'changed'
  what: 'tool' | 'method'
  name: string
  /** A sentence: what to do, or what has changed. */
  why: string
}

/** Mildest first. */
const CONSEQUENCES: readonly string[] = ['reversible', 'compensatable', 'forward_recoverable', 'irreversible']

/**
 * Every difference: tools in the order of the server's list, then what is gone, then methods. `unreadable`
 * are tools of the server that no entry can be proposed for.
 */
export function differences(
  { tools, methods }: Proposal,
  configured: Configured,
  unreadable: readonly string[],
): Difference[] {
  const listed = tools.filter(({ definition }) => definition !== undefined)
  return [
    ...listed.flatMap(tool => toolDifferences(tool, configured)),
    ...missingTools(new Set([...listed.map(({ tool }) => tool), ...unreadable]), configured),
    ...methodDifferences(methods, configured),
  ]
}

function toolDifferences(
  { tool: name, consequence, definition }: ProposedTool,
  { tools, definitions, leftOut }: Configured,
): Difference[] {
  if (leftOut.has(name)) return []
  const about = { what: 'tool', name } as const
  const entries = tools.filter(one => one.tool === name)
  if (entries.length === 0)
    return [{ ...about, kind: 'new', why: 'it is refused. Add it, or name it in a comment as left out.' }]
  const found: Difference[] = []
  const before = definitions.get(name)
  if (before !== undefined && before !== definition)
    found.push({
      ...about,
      kind: 'changed',
      why: `the server describes it otherwise than before. Look at it, then write ${definition} beside it.`,
    })
  // A part may well be milder: only the entry for all other calls must bear what the server says.
  const whole = entries.find(({ when }) => when === undefined)
  if (isGraver(consequence, whole?.consequence))
    found.push({
      ...about,
      kind: 'changed',
      why: `the server says that it is ${consequence}, and the file that it is ${whole?.consequence}.`,
    })
  return found
}

/** What is undescribed on either side is no contradiction. */
function isGraver(says: string | undefined, declared: string | undefined): boolean {
  if (says === undefined || declared === undefined) return false
  return CONSEQUENCES.indexOf(says) > CONSEQUENCES.indexOf(declared)
}

/** An entry that methods name need not be a tool of the server. */
function missingTools(listed: ReadonlySet<string>, { tools, methods }: Configured): Difference[] {
  const named = new Set(
    Object.values(methods).flatMap(rule =>
      rule === 'free'
        ? []
        : [rule.tool, ...Object.values(rule.uris ?? {}), ...Object.values(rule.names ?? {})],
    ),
  )
  const missing = tools.filter(({ tool, as }) => !listed.has(tool) && !named.has(as ?? tool))
  return [...new Set(missing.map(({ tool }) => tool))].map(name => ({
    kind: 'gone',
    what: 'tool',
    name,
    why: 'the server lists it no more. Take it out.',
  }))
}

/** Methods that only a server with a certain capability has. */
const METHODS_OF_CAPABILITIES: ReadonlySet<string> = new Set([
  'resources/read',
  'resources/subscribe',
  'resources/unsubscribe',
  'prompts/get',
  'completion/complete',
  'logging/setLevel',
])

const UNMAPPED = 'it is refused as a method that the server does not have. Map it, or name it as left out.'
const CLOSED_STREAM =
  'the stream of its sessions is closed, so what a tool asks its client there reaches nobody. Say free, ' +
  'name it in open_methods, or name it as left out.'

function methodDifferences(
  offered: Proposal['methods'],
  { methods, openMethods, leftOut }: Configured,
): Difference[] {
  const isOpen = (method: string): boolean =>
    openMethods.some(one => one === method || one === `${method.split('/')[0]!}/*`)
  return [
    ...Object.keys(offered)
      .filter(method => !Object.hasOwn(methods, method) && !isOpen(method) && !leftOut.has(method))
      .map((name): Difference => ({
        kind: 'new',
        what: 'method',
        name,
        why: name === 'GET' ? CLOSED_STREAM : UNMAPPED,
      })),
    ...Object.keys(methods)
      .filter(method => METHODS_OF_CAPABILITIES.has(method) && !Object.hasOwn(offered, method))
      .map((name): Difference => ({
        kind: 'gone',
        what: 'method',
        name,
        why: 'the server does not say that it has it. Take it out.',
      })),
  ]
}
