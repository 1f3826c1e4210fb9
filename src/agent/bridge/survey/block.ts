/**
 * Owns the `tools:` block that is proposed for what an MCP server lists. Contract: "Resource metadata"
 * (consequence classes) and "Authorized call". Everything in it that the server wrote is marked as the
 * server's text: one line each, in comments or in quotes.
 */
import { printable } from '../../../terminal/printable.ts'

/** The parts of a listed tool that are read; none of them is trusted. */
export interface ListedTool {
  name: string
  description?: unknown
  annotations?: unknown
}

interface Proposal {
  scope: 'read' | 'write'
  /** Left out, it is undescribed. */
  consequence?: 'reversible' | 'compensatable' | 'irreversible'
  why: string
}

const TOOL = /^[\x21-\x7e]{1,128}$/
const DESCRIPTION_LENGTH_MAX = 100

/**
 * The block, as YAML: for each tool what the server says of it in a comment, and what follows from that.
 * `revision` is the revision of MCP in which it was listed.
 */
export function toolsBlock(
  tools: readonly ListedTool[],
  { url, owner, revision }: { url: string; owner: string; revision: string | undefined },
): string {
  const seen = new Set<string>()
  const entries = tools.map(tool => {
    const isTwice = seen.has(tool.name)
    seen.add(tool.name)
    return entryOf(tool, owner, isTwice)
  })
  const head = [
    `Listed by ${url}${revision === undefined ? '' : ` (MCP ${revision})`}. A proposal, for you to edit:`,
    '- resource_id: what a tool touches. Tools that touch the same thing may name the same one.',
    "- scopes: what a call of it needs; the owner's tiers name them.",
    '- consequence: reversible, compensatable, forward_recoverable or irreversible; left out, it is undescribed.',
    "  It follows from the server's own annotations, which nobody has checked.",
    'Take out what no agent may call: a tool that is not listed here is refused.',
  ]
  return [
    ...head.map(line => `# ${printable(line)}\n`),
    `tools:${entries.length === 0 ? ' []' : ''}\n`,
    ...entries,
  ].join('')
}

function entryOf({ name, description, annotations }: ListedTool, owner: string, isTwice: boolean): string {
  if (!TOOL.test(name) || isTwice)
    return `  # Left out: ${quoted(name)} ${isTwice ? 'is listed twice' : 'is no name of 1 to 128 visible ASCII characters'}.\n`
  const { scope, consequence, why } = proposed(annotations)
  const told = typeof description === 'string' ? `  # ${shortened(description)}\n` : ''
  return [
    told,
    `  - tool: ${quoted(name)}\n`,
    `    resource_id: ${quoted(`${owner}/${name.replace(/[^A-Za-z0-9._-]/g, '-')}`)}\n`,
    `    scopes: [${scope}]\n`,
    consequence === undefined ? `    # consequence: ${why}\n` : `    consequence: ${consequence} # ${why}\n`,
  ].join('')
}

/**
 * MCP: a tool without the hint may be destructive (`destructiveHint` is true by default). But a tool without
 * any hint stays undescribed.
 */
function proposed(annotations: unknown): Proposal {
  const given =
    typeof annotations === 'object' && annotations !== null ? (annotations as Record<string, unknown>) : {}
  const { readOnlyHint, destructiveHint } = given
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

/** A text as a JSON string, which YAML reads alike. */
function quoted(text: string): string {
  return printable(JSON.stringify(text))
}

function shortened(text: string): string {
  const line = printable(text.replace(/\s+/g, ' ').trim())
  return line.length <= DESCRIPTION_LENGTH_MAX ? line : `${line.slice(0, DESCRIPTION_LENGTH_MAX - 1)}…`
}
