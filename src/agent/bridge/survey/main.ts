/**
 * Owns `usher sidecar tools`: what an MCP server lists, as the `tools:` block of the sidecar's file, for a
 * person to edit. Contract: "Authorized call" (the tool maps to a resource) and "Resource metadata": what a
 * server says of its tools is a proposal, and what is configured counts.
 */
import { connectionWords } from '../../../terminal/connection-words.ts'
import { UsageError, type Terminal } from '../../../terminal/command.ts'
import { printable } from '../../../terminal/printable.ts'
import { NAME_PATTERN } from '../../../wire/names.ts'
import { readAnswer, sentIn } from '../read-answer.ts'
import type { SpoiltTool } from '../readable-tool.ts'
import { toolsBlock, type ListedTool } from './block.ts'

export interface SurveyOptions {
  /** The owner whose resource ids are written; `{owner}` if left out, for `resources` of the file. */
  owner?: string | undefined
  /** `name: value`, sent with each request; what a server behind an enforcement point waits for. */
  header?: readonly string[] | undefined
}

const SECONDS_MAX = 30
const PAGES_MAX = 100
const TOOLS_MAX = 2_000
const HEADER = /^([A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}): *([\x20-\x7e]{0,4000})$/

/**
 * Writes the block to the terminal. Throws `UsageError` for wrong options, and otherwise an error that says
 * why the tools could not be listed and what to do.
 */
export async function runToolsSurvey(
  given: string,
  options: SurveyOptions,
  terminal: Terminal,
): Promise<void> {
  const url = URL.parse(given)
  if (url === null || !/^https?:$/.test(url.protocol) || url.username !== '' || url.password !== '')
    throw new UsageError('Give the URL of an MCP server, such as http://127.0.0.1:9300/mcp.')
  const { owner = '{owner}' } = options
  if (options.owner !== undefined && !NAME_PATTERN.test(owner))
    throw new UsageError('--owner: give 1 to 64 letters, digits, ".", "_" or "-".')
  const { tools, spoilt, revision } = await listTools(url, headersOf(options.header ?? []))
  terminal.out(toolsBlock(tools, { url: url.href, owner, revision }))
  for (const { name, why } of spoilt.slice(0, TOOLS_MAX))
    terminal.err(`The tool "${printable(name)}" is left out: ${printable(why)}.\n`)
  if (tools.length === 0)
    terminal.err(`${printable(url.href)} lists no tool, so there is nothing to configure.\n`)
}

function headersOf(given: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    given.map(text => {
      const [, name, value] = HEADER.exec(text) ?? []
      if (name === undefined || value === undefined)
        throw new UsageError("--header: give a name and a value, such as 'x-uma-owner: alice'.")
      return [name.toLowerCase(), value]
    }),
  )
}

/** The error of the request, because the SDK does not always report it. */
interface Way {
  failure?: unknown
  status?: number
}

/** Speaks the revision that the server speaks: 2026-07-28, or 2025-11-25 with a session. */
async function listTools(
  url: URL,
  headers: Record<string, string>,
): Promise<{ tools: ListedTool[]; spoilt: SpoiltTool[]; revision: string | undefined }> {
  const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client')
  const signal = AbortSignal.timeout(SECONDS_MAX * 1_000)
  const way: Way = {}
  const spoilt: SpoiltTool[] = []
  const client = new Client(
    { name: 'usher-sidecar-tools', version: '1.0' },
    { versionNegotiation: { mode: 'auto' } },
  )
  const transport = new StreamableHTTPClientTransport(url, {
    requestInit: { headers },
    fetch: async (target, init) => {
      try {
        const response = await fetch(target, { ...init, redirect: 'manual' })
        way.status = response.status
        return await readAnswer(response, {
          url,
          specNs: '',
          now: () => Math.floor(Date.now() / 1000),
          exchange: undefined,
          request: sentIn(init),
          onSpoilt: tool => void spoilt.push(tool),
        })
      } catch (error) {
        way.failure = error
        throw error
      }
    },
  })
  try {
    await client.connect(transport, { signal })
    const tools: ListedTool[] = []
    let cursor: string | undefined
    for (let page = 0; page < PAGES_MAX && tools.length < TOOLS_MAX; page++) {
      const answer = await client.listTools(cursor === undefined ? {} : { cursor }, { signal })
      tools.push(...answer.tools)
      cursor = answer.nextCursor
      if (cursor === undefined) break
    }
    return { tools: tools.slice(0, TOOLS_MAX), spoilt, revision: client.getNegotiatedProtocolVersion() }
  } catch (error) {
    throw new Error(`The tools of ${url.href} could not be read: ${whyNot(error, way, signal)}`, {
      cause: error,
    })
  } finally {
    await client.close().catch(() => undefined)
  }
}

function whyNot(error: unknown, { failure, status }: Way, signal: AbortSignal): string {
  if (signal.aborted) return `it did not answer within ${SECONDS_MAX} s. Try again later, or nearer to it.`
  if (failure !== undefined)
    return connectionWords(failure) ?? 'the connection failed. Correct the host and the port.'
  if (status === 401 || status === 403)
    return `it answered ${status}: it asks who calls. Give the address of the server itself, behind its enforcement point, or what it asks for by --header.`
  if (status !== undefined && status >= 300 && status < 400)
    return `it answered ${status}, a redirect, which is not followed. Give the address that it leads to.`
  if (status === 404 || status === 405)
    return `it answered ${status}: no MCP server is at this path. Give its whole URL, as its own clients do, and by --header what it chooses by (such as x-uma-owner).`
  if (status !== undefined && status >= 400) return `it answered ${status}. See its log.`
  const said = error instanceof Error ? printable(error.message).slice(0, 200) : 'no answer'
  return `it does not speak MCP over Streamable HTTP there (${said}). Correct the path.`
}
