/**
 * Owns the entries that are proposed for what an MCP server lists, and the block of YAML with them. Contract:
 * "Resource metadata" (consequence classes) and "Authorized call". Everything in it that the server wrote is
 * marked as the server's text: one line each, in comments or in quotes.
 */
import { printable } from '../../../terminal/printable.ts'
import { s256Json } from '../../../wire/encoding.ts'
import type { Json } from '../../../wire/json.ts'

/** The parts of a listed tool that are read; none of them is trusted. */
export interface SurveyTool {
  name: string
  description?: unknown
  annotations?: unknown
  inputSchema?: unknown
  outputSchema?: unknown
}

/** What a server says that it has, beside tools; none of it is trusted. */
export interface Offers {
  resources?: { subscribe?: unknown } | undefined
  prompts?: unknown
  completions?: unknown
  logging?: unknown
  /** Whether it gives its clients sessions, and serves the stream of one (GET). */
  sessionStream?: boolean
}

/** The entry that is proposed for a tool, or for the objects that methods are about. */
export interface ProposedTool {
  tool: string
  resource_id: string
  scope: 'read' | 'write'
  /** Left out, it is undescribed. */
  consequence?: 'reversible' | 'compensatable' | 'irreversible' | undefined
  /** What the consequence follows from. */
  why: string
  description?: string | undefined
  /** The hash of everything that the server says about the tool; none for what is no tool of the server. */
  definition?: string | undefined
}

export interface Proposal {
  tools: ProposedTool[]
  /** Names that no entry can be written for, and why. */
  leftOut: { name: string; why: string }[]
  /** By method, the tool whose grant it needs, or `free`; `GET` is the stream of a session. */
  methods: Record<string, string>
}

interface Class {
  scope: 'read' | 'write'
  consequence?: 'reversible' | 'compensatable' | 'irreversible'
  why: string
}

const TOOL = /^[\x21-\x7e]{1,128}$/
const DESCRIPTION_LENGTH_MAX = 100
/** As the sidecar's file names the stream of a session. */
const STREAM = 'GET'

/** What is proposed for what a server lists; `owner` begins each resource id. */
export function proposalFor(listed: readonly SurveyTool[], owner: string, offers: Offers = {}): Proposal {
  const names = new Set<string>()
  const tools: ProposedTool[] = []
  const leftOut: Proposal['leftOut'] = []
  for (const { name, description, annotations, ...rest } of listed) {
    if (names.has(name)) leftOut.push({ name, why: 'is listed twice' })
    else if (!TOOL.test(name)) leftOut.push({ name, why: 'is no name of 1 to 128 visible ASCII characters' })
    else
      tools.push({
        tool: name,
        resource_id: `${owner}/${name.replace(/[^A-Za-z0-9._-]/g, '-')}`,
        ...classOf(annotations),
        description: typeof description === 'string' ? description : undefined,
        definition: hashOf({ name, description, annotations, ...rest }),
      })
    names.add(name)
  }
  const objects = objectsIn(offers, owner, names)
  return { tools: [...tools, ...objects.tools], leftOut, methods: objects.methods }
}

/**
 * Reading a resource and getting a prompt change nothing, says MCP. Each needs the grant of an entry that is
 * no tool of the server; whoever completes an argument reads what the argument may be.
 */
function objectsIn(
  { resources, prompts, completions, logging, sessionStream }: Offers,
  owner: string,
  names: ReadonlySet<string>,
): Pick<Proposal, 'tools' | 'methods'> {
  const entry = (name: string, object: string): ProposedTool => ({
    tool: names.has(name) ? `${name}-method` : name,
    resource_id: `${owner}/${object}`,
    scope: 'read',
    consequence: 'reversible',
    why: `MCP says that this reads alone. It is no tool of the server, but stands for its ${object}.`,
  })
  const reading = resources === undefined ? undefined : entry('read_resource', 'resources')
  const getting = prompts === undefined ? undefined : entry('get_prompt', 'prompts')
  const completing = completions === undefined ? undefined : (reading ?? getting)
  const methods = {
    'resources/read': reading?.tool,
    'resources/subscribe': resources?.subscribe === true ? reading?.tool : undefined,
    'resources/unsubscribe': resources?.subscribe === true ? reading?.tool : undefined,
    'prompts/get': getting?.tool,
    'completion/complete': completing?.tool,
    'logging/setLevel': logging === undefined ? undefined : 'free',
    [STREAM]: sessionStream === true ? 'free' : undefined,
  }
  return {
    tools: [reading, getting].filter(one => one !== undefined),
    methods: Object.fromEntries(
      Object.entries(methods).filter((one): one is [string, string] => one[1] !== undefined),
    ),
  }
}

/** No list says on which stream a server asks its clients, so one that has both may ask on either. */
const STREAM_LINES = [
  'GET is the stream of a session: a tool may ask its client there in the middle of a call. If the stream is',
  'closed, such a tool waits for nobody, even in a call that the owner approved. Free, it needs no grant: whoever',
  'knows the id of a session hears there what the server says outside calls (questions, log messages, changes),',
  'and no revocation ends it. If that tells what a grant is for, write `open_methods: [GET]` into the file in its',
  'place: then the stream needs a standing grant, and tools whose every call is approved cannot ask there.',
]

/** The whole block. `revision` is the revision of MCP in which it was listed. */
export function toolsBlock(
  listed: readonly SurveyTool[],
  {
    url,
    owner,
    revision,
    offers,
  }: {
    url: string
    owner: string
    revision: string | undefined
    offers?: Offers
  },
): string {
  const { tools, leftOut, methods } = proposalFor(listed, owner, offers)
  const head = [
    `Listed by ${url}${revision === undefined ? '' : ` (MCP ${revision})`}. A proposal, for you to edit:`,
    '- resource_id: what a tool touches. Tools that touch the same thing may name the same one.',
    "- scopes: what a call of it needs; the owner's tiers name them.",
    '- consequence: reversible, compensatable, forward_recoverable or irreversible; left out, it is undescribed.',
    "  It follows from the server's own annotations, which nobody has checked.",
    'Take out what no agent may call: a tool that is not listed here is refused. Keep its name in a comment,',
    'as in `left out: name`, and keep the hashes: --diff knows by them what is left out, and what has changed.',
  ]
  return [
    ...head.map(line => `# ${printable(line)}\n`),
    `tools:${tools.length === 0 ? ' []' : ''}\n`,
    ...leftOut.map(({ name, why }) => `  # Left out: ${quoted(name)} ${why}.\n`),
    ...tools.map(toolEntry),
    ...methodsBlock(methods),
  ].join('')
}

/** One entry of `tools`, as YAML. */
export function toolEntry({ tool, resource_id, scope, consequence, ...more }: ProposedTool): string {
  const { why, description, definition } = more
  return [
    description === undefined ? '' : `  # ${shortened(description)}\n`,
    `  - tool: ${quoted(tool)}${definition === undefined ? '' : ` # ${definition}`}\n`,
    `    resource_id: ${quoted(resource_id)}\n`,
    `    scopes: [${scope}]\n`,
    consequence === undefined ? `    # consequence: ${why}\n` : `    consequence: ${consequence} # ${why}\n`,
  ].join('')
}

function methodsBlock(methods: Proposal['methods']): string[] {
  const entries = Object.entries(methods)
  if (entries.length === 0) return []
  return [
    'methods:\n',
    ...entries.flatMap(([method, tool]) => [
      ...(method === STREAM ? STREAM_LINES.map(line => `  # ${line}\n`) : []),
      `  ${method}: ${tool === 'free' ? 'free' : `{ tool: ${quoted(tool)} }`}\n`,
    ]),
  ]
}

/**
 * MCP: a tool without the hint may be destructive (`destructiveHint` is true by default). But a tool without
 * any hint stays undescribed.
 */
function classOf(annotations: unknown): Class {
  const hints =
    typeof annotations === 'object' && annotations !== null ? (annotations as Record<string, unknown>) : {}
  const { readOnlyHint, destructiveHint } = hints
  if (readOnlyHint === true && destructiveHint !== true)
    return { scope: 'read', consequence: 'reversible', why: 'readOnlyHint: it changes nothing' }
  if (destructiveHint === true)
    return { scope: 'write', consequence: 'irreversible', why: 'destructiveHint: it may destroy' }
  if (destructiveHint === false)
    return {
      scope: 'write',
      consequence: 'compensatable',
      why: 'destructiveHint is false: it only adds. Is there a call that takes it back?',
    }
  if (readOnlyHint === false)
    return {
      scope: 'write',
      consequence: 'irreversible',
      why: 'it changes something, and does not say that it destroys nothing',
    }
  return { scope: 'write', why: 'the server says nothing of it. Say what a call of it does.' }
}

/** Undefined for what has no canonical form, such as half a surrogate pair. */
function hashOf(definition: object): string | undefined {
  try {
    return s256Json(JSON.parse(JSON.stringify(definition)) as Json)
  } catch {
    return undefined
  }
}

/** A text as a JSON string, which YAML reads alike. */
function quoted(text: string): string {
  return printable(JSON.stringify(text))
}

function shortened(text: string): string {
  const line = printable(text.replace(/\s+/g, ' ').trim())
  return line.length <= DESCRIPTION_LENGTH_MAX ? line : `${line.slice(0, DESCRIPTION_LENGTH_MAX - 1)}…`
}
