/**
 * Owns `usher sidecar tools` and `usher authority provision`: what an MCP server lists, as entries of the
 * sidecar's file and of the provisioning file, for a person to edit. Contract: "Authorized call" (the tool
 * maps to a resource) and "Resource metadata": what a server says of its tools is a proposal, and what is
 * configured counts.
 */
import { waitAtMost } from '../../../limits/patience.ts'
import { connectionWords } from '../../../terminal/connection-words.ts'
import {
  proposedProvision,
  provisionedFile,
  provisionedFrom,
  readConfiguredSurface,
  readOwnedResources,
} from '../../../config.ts'
import { EXIT, UsageError, type Terminal } from '../../../terminal/command.ts'
import { printable } from '../../../terminal/printable.ts'
import { NAME_PATTERN } from '../../../wire/names.ts'
import { readAnswer, sentIn } from '../answers/read-answer.ts'
import { EVENT_STREAM_TYPE } from '../protocol.ts'
import type { SpoiltTool } from '../answers/readable-tool.ts'
import { proposalFor, toolEntry, toolsBlock, type SurveyTool, type Offers } from './block.ts'
import { differences } from './difference.ts'
import { LIST_ENTRIES_MAX, LIST_PAGES_MAX } from '../bounds.ts'

export interface SurveyOptions {
  /** The owner whose resource ids are written; `{owner}` if left out, for `resources` of the file. */
  owner?: string | undefined
  /** `name: value`, sent with each request; what a server behind an enforcement point waits for. */
  header?: readonly string[] | undefined
  /** A sidecar's file, or a block written before: only what differs from it is said. */
  diff?: string | undefined
  /** The path of the resource in that file, if it has several. */
  path?: string | undefined
  /** Whether a difference is a failure. */
  check?: boolean | undefined
}

export interface ProvisionOptions extends Pick<SurveyOptions, 'owner' | 'header'> {
  /** A sidecar's file, or the URL of an MCP server. */
  from: string
  /** Of a server: the URL that agents call, and the name by which the authority will know it. */
  resource?: string | undefined
  clientId?: string | undefined
}

const SURVEY_SECONDS_MAX = 30
/** A server that answers at the first event of its stream alone is taken for one that serves none. */
const STREAM_MILLISECONDS_MAX = 5000
const HEADER = /^([A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}): *([\x20-\x7e]{0,4000})$/
const CLIENT_ID = /^[\x21-\x7e]{1,255}$/

/**
 * Writes the block to the terminal, or with `diff` what differs. Returns the exit code: 1 if `check` finds a
 * difference. Throws `UsageError` for wrong options, `ConfigFault` for a file that cannot be read, and
 * otherwise an error that says why the tools could not be listed and what to do.
 */
export async function runToolsSurvey(
  address: string,
  options: SurveyOptions,
  terminal: Terminal,
): Promise<number> {
  const url = serverUrl(address)
  const owner = ownerName(options.owner) ?? '{owner}'
  const { diff, path, check = false } = options
  if (diff === undefined && (check || path !== undefined))
    throw new UsageError(`Give --diff <file>, with which --${check ? 'check' : 'path'} is to be used.`)
  const configured = diff === undefined ? undefined : readConfiguredSurface(diff, path)
  const { tools, spoilt, revision, offers } = await survey(url, options, terminal)
  if (configured === undefined) {
    terminal.out(toolsBlock(tools, { url: url.href, owner, revision, offers }))
    return EXIT.done
  }
  const proposal = proposalFor(tools, owner, offers)
  const unreadable = [...spoilt, ...proposal.leftOut].map(({ name }) => name)
  const found = differences(proposal, configured, unreadable)
  for (const { kind, what, name, why } of found)
    terminal.out(`${kind} ${what} ${printable(JSON.stringify(name))}: ${printable(why)}\n`)
  if (found.length === 0) terminal.out(`${printable(diff!)} says what ${printable(url.href)} lists.\n`)
  const added = proposal.tools.filter(({ tool }) =>
    found.some(({ kind, what, name }) => kind === 'new' && what === 'tool' && name === tool),
  )
  if (added.length > 0) terminal.out(`\n# To add below tools:\n${added.map(toolEntry).join('')}`)
  return check && found.length > 0 ? EXIT.refused : EXIT.done
}

/**
 * Writes what is proposed for the provisioning file of an authority to the terminal: for each resource of a
 * sidecar's file, or for the tools that a server lists. Throws as `runToolsSurvey` does.
 */
export async function runProvisionProposal(options: ProvisionOptions, terminal: Terminal): Promise<void> {
  const owner = ownerName(options.owner)
  if (!/^https?:\/\//i.test(options.from)) {
    const { owned, publicUrl } = readOwnedResources('--from', options.from)
    const chosen = owned.filter(one => owner === undefined || one.owner === owner)
    if (chosen.length === 0) throw new UsageError(`--owner: ${options.from} lists no owner ${owner ?? ''}.`)
    const { servers, notes } = provisionedFrom(chosen, publicUrl)
    terminal.out(proposedProvision(servers, notes))
    return
  }
  const url = serverUrl(options.from)
  const { resource, clientId = 'tools' } = options
  if (owner === undefined) throw new UsageError('--owner: name the owner of the tools.')
  if (resource === undefined || URL.parse(resource) === null)
    throw new UsageError(
      '--resource: give the URL that agents call, such as https://tools.example.com/mcp/alice.',
    )
  if (!CLIENT_ID.test(clientId))
    throw new UsageError('--client-id: give 1 to 255 visible ASCII characters, no spaces.')
  const { tools, offers } = await survey(url, options, terminal)
  const proposed = proposalFor(tools, owner, offers).tools.map(({ scope, ...tool }) => ({
    ...tool,
    scopes: [scope],
  }))
  const named = { owner, client_id: clientId, name: clientId, resource_uri: resource }
  const server = { ...named, client_secret_file: provisionedFile(clientId) }
  terminal.out(proposedProvision([{ ...server, tools: proposed }]))
}

function serverUrl(address: string): URL {
  const url = URL.parse(address)
  if (url === null || !/^https?:$/.test(url.protocol) || url.username !== '' || url.password !== '')
    throw new UsageError('Give the URL of an MCP server, such as http://127.0.0.1:9300/mcp.')
  return url
}

function ownerName(owner: string | undefined): string | undefined {
  if (owner !== undefined && !NAME_PATTERN.test(owner))
    throw new UsageError('--owner: give 1 to 64 letters, digits, ".", "_" or "-".')
  return owner
}

/** Lists, and says on the terminal what could not be read. */
async function survey(
  url: URL,
  { header = [] }: Pick<SurveyOptions, 'header'>,
  terminal: Terminal,
): Promise<Survey> {
  const found = await listTools(url, headersOf(header))
  for (const { name, why } of found.spoilt.slice(0, LIST_ENTRIES_MAX))
    terminal.err(`The tool "${printable(name)}" is left out: ${printable(why)}.\n`)
  if (found.tools.length === 0)
    terminal.err(`${printable(url.href)} lists no tool, so there is nothing to configure.\n`)
  return found
}

function headersOf(lines: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    lines.map(text => {
      const [, name, value] = HEADER.exec(text) ?? []
      if (name === undefined || value === undefined)
        throw new UsageError("--header: give a name and a value, such as 'x-uma-owner: alice'.")
      return [name.toLowerCase(), value]
    }),
  )
}

interface Survey {
  tools: SurveyTool[]
  spoilt: SpoiltTool[]
  revision: string | undefined
  offers: Offers
}

/** The error of the request, because the SDK does not always report it. */
interface Way {
  failure?: unknown
  status?: number
  /** Whether the stream of the session is served; undefined until the SDK asks for it. */
  stream?: Promise<boolean>
}

function isStream({ ok, headers }: Response): boolean {
  return ok && headers.get('content-type')?.toLowerCase().startsWith(EVENT_STREAM_TYPE) === true
}

/** Speaks the revision that the server speaks: 2026-07-28, or 2025-11-25 with a session. */
async function listTools(url: URL, headers: Record<string, string>): Promise<Survey> {
  const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client')
  const signal = AbortSignal.timeout(SURVEY_SECONDS_MAX * 1_000)
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
        const answering = fetch(target, { ...init, redirect: 'manual' })
        if (init?.method === 'GET') way.stream = answering.then(isStream, () => false)
        const response = await answering
        if (init?.method !== 'GET') way.status = response.status
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
    const tools: SurveyTool[] = []
    const offers: Offers = client.getServerCapabilities() ?? {}
    let cursor: string | undefined
    for (let page = 0; page < LIST_PAGES_MAX && tools.length < LIST_ENTRIES_MAX; page++) {
      const answer = await client.listTools(cursor === undefined ? {} : { cursor }, { signal })
      tools.push(...answer.tools)
      cursor = answer.nextCursor
      if (cursor === undefined) break
    }
    const revision = client.getNegotiatedProtocolVersion()
    const isServed = await waitAtMost(STREAM_MILLISECONDS_MAX, Promise.resolve(way.stream))
    const sessionStream = transport.sessionId !== undefined && isServed === true
    return {
      tools: tools.slice(0, LIST_ENTRIES_MAX),
      spoilt,
      revision,
      offers: { ...offers, sessionStream },
    }
  } catch (error) {
    throw new Error(`The tools of ${url.href} could not be read: ${whyNot(error, way, signal)}`, {
      cause: error,
    })
  } finally {
    await client.close().catch(() => undefined)
  }
}

function whyNot(error: unknown, { failure, status }: Way, signal: AbortSignal): string {
  if (signal.aborted)
    return `it did not answer within ${SURVEY_SECONDS_MAX} s. Try again later, or nearer to it.`
  if (failure !== undefined)
    return connectionWords(failure) ?? 'the connection failed. Correct the host and the port.'
  if (status === 401 || status === 403)
    return `it answered ${status}: it asks who calls. Give the address of the server itself, behind its enforcement point, or what it asks for by --header.`
  if (status !== undefined && status >= 300 && status < 400)
    return `it answered ${status}, a redirect, which is not followed. Give the address that it leads to.`
  if (status === 404 || status === 405)
    return `it answered ${status}: no MCP server is at this path. Give its whole URL, as its own clients do, and by --header what it chooses by (such as x-uma-owner).`
  if (status !== undefined && status >= 400) return `it answered ${status}. See its log.`
  const reason = error instanceof Error ? printable(error.message).slice(0, 200) : 'no answer'
  return `it does not speak MCP over Streamable HTTP there (${reason}). Correct the path.`
}
