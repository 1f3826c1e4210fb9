/**
 * Owns four MCP servers that nobody here wrote, as processes with files of their own: what each of their
 * tools is called with, and every answer of one, without times and ids, to be compared with those of another
 * way.
 */
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
} from '@modelcontextprotocol/sdk/types.js'
import type { Json, JsonObject } from '../../src/wire/json.ts'

/** One of the servers, and what its tools are called with in a folder of its own. */
export interface Sample {
  name: string
  args?: (folder: string) => string[]
  calls: (folder: string) => [tool: string, args: JsonObject][]
  /** The arguments of a prompt that takes no plain words. */
  prompts?: Record<string, Record<string, string>>
}

export const SAMPLES: Sample[] = [
  {
    name: 'server-everything',
    calls: () => [
      ['get-sum', { a: 2, b: 3 }],
      ['trigger-long-running-operation', { duration: 1, steps: 2 }],
      ['gzip-file-as-resource', { name: 'x.gz', data: 'data:text/plain,x', outputType: 'resource' }],
    ],
    prompts: { 'resource-prompt': { resourceType: 'Text', resourceId: '1' } },
  },
  {
    name: 'server-filesystem',
    args: folder => [folder],
    calls: folder => {
      const at = (name: string): string => join(folder, name)
      return [
        ['list_allowed_directories', {}],
        ['write_file', { path: at('new.txt'), content: 'one\ntwo\n' }],
        ['create_directory', { path: at('sub') }],
        ['read_file', { path: at('new.txt') }],
        ['read_text_file', { path: at('new.txt'), head: 1 }],
        ['read_media_file', { path: at('new.txt') }],
        ['read_multiple_files', { paths: [at('new.txt'), at('none.txt')] }],
        ['edit_file', { path: at('new.txt'), edits: [{ oldText: 'two', newText: '2' }], dryRun: true }],
        ['edit_file', { path: at('new.txt'), edits: [{ oldText: 'two', newText: 'three' }] }],
        ['move_file', { source: at('new.txt'), destination: at('sub/moved.txt') }],
        ['list_directory', { path: folder }],
        ['list_directory_with_sizes', { path: at('sub') }],
        ['directory_tree', { path: folder }],
        ['search_files', { path: folder, pattern: '**/*.txt' }],
        ['get_file_info', { path: at('sub/moved.txt') }],
      ]
    },
  },
  {
    name: 'server-memory',
    calls: () => {
      const entities = [
        { name: 'Alice', entityType: 'person', observations: ['owns tools'] },
        { name: 'Bot', entityType: 'agent', observations: [] },
      ]
      const relations = [{ from: 'Bot', to: 'Alice', relationType: 'asks' }]
      return [
        ['create_entities', { entities }],
        ['create_relations', { relations }],
        ['add_observations', { observations: [{ entityName: 'Bot', contents: ['signs terms'] }] }],
        ['read_graph', {}],
        ['search_nodes', { query: 'terms' }],
        ['open_nodes', { names: ['Alice'] }],
        ['delete_observations', { deletions: [{ entityName: 'Bot', observations: ['signs terms'] }] }],
        ['delete_relations', { relations }],
        ['delete_entities', { entityNames: ['Bot'] }],
        ['read_graph', {}],
      ]
    },
  },
  {
    name: 'server-sequential-thinking',
    calls: () => [
      [
        'sequentialthinking',
        { thought: 'First', nextThoughtNeeded: true, thoughtNumber: 1, totalThoughts: 2 },
      ],
      [
        'sequentialthinking',
        { thought: 'Last', nextThoughtNeeded: false, thoughtNumber: 2, totalThoughts: 2 },
      ],
    ],
  },
]

const require = createRequire(import.meta.url)

const programOf = (name: string): string =>
  join(dirname(require.resolve(`@modelcontextprotocol/${name}/package.json`)), 'dist/index.js')

/** A folder with one file, which a server may use. `remove` deletes it and whatever was written beside it. */
export function newFolder(): { folder: string; remove: () => void } {
  const place = realpathSync(mkdtempSync(join(tmpdir(), 'usher-public-')))
  const folder = join(place, 'files')
  mkdirSync(folder)
  writeFileSync(join(folder, 'old.txt'), 'old\n')
  return { folder, remove: () => rmSync(place, { recursive: true, force: true }) }
}

/** The way to a process of the server, which starts when somebody connects. */
export function stdioOf({ name, args = () => [] }: Sample, folder: string): StdioClientTransport {
  const home = dirname(folder)
  return new StdioClientTransport({
    command: process.execPath,
    args: [programOf(name), ...args(folder)],
    env: { PATH: process.env['PATH']!, HOME: home, MEMORY_FILE_PATH: join(home, 'memory.jsonl') },
    stderr: 'ignore',
  })
}

/** How every client of `newClient` calls itself. */
export const CLIENT_NAME = 'test'

/** A client that answers each question that a server may ask; forms are declined. */
export function newClient(folder: string): Client {
  const client = new Client(
    { name: CLIENT_NAME, version: '1' },
    { capabilities: { sampling: {}, elicitation: { form: {} }, roots: {} } },
  )
  client.setRequestHandler(CreateMessageRequestSchema, () => ({
    model: 'test',
    role: 'assistant',
    content: { type: 'text', text: 'sampled' },
  }))
  client.setRequestHandler(ElicitRequestSchema, () => ({ action: 'decline' }))
  client.setRequestHandler(ListRootsRequestSchema, () => ({
    roots: [{ uri: pathToFileURL(folder).href, name: 'files' }],
  }))
  return client
}

/** What a request comes to: its result, or the error that the server answers with. */
async function outcome(answer: Promise<unknown>): Promise<unknown> {
  try {
    return await answer
  } catch (error) {
    const { code, message } = error as { code?: number; message: string }
    return { code, message }
  }
}

/** Each value that a tool needs, from the schema of its arguments. */
function argumentsFor(schema: JsonObject): Json {
  const { type, properties = {}, required = [], items, minimum } = schema
  const { enum: words, default: usual } = schema
  if (usual !== undefined) return usual
  if (Array.isArray(words)) return words[0]!
  switch (type) {
    case 'object':
      return Object.fromEntries(
        (required as string[]).map(name => [
          name,
          argumentsFor((properties as JsonObject)[name] as JsonObject),
        ]),
      )
    case 'array':
      return items === undefined ? [] : [argumentsFor(items as JsonObject)]
    case 'number':
    case 'integer':
      return typeof minimum === 'number' ? minimum : 1
    case 'boolean':
      return true
    default:
      return 'sample'
  }
}

export interface Listed {
  tools: { name: string; inputSchema: JsonObject }[]
  /** Those of templates, too, each with 1 in every place. */
  resources: string[]
  prompts: { name: string; arguments?: { name: string }[] }[]
}

export async function listsOf(client: Client): Promise<Listed> {
  const { resources, prompts } = client.getServerCapabilities() ?? {}
  return {
    tools: (await client.listTools()).tools as never,
    resources: resources === undefined ? [] : await urisOf(client),
    prompts: prompts === undefined ? [] : ((await client.listPrompts()).prompts as never),
  }
}

async function urisOf(client: Client): Promise<string[]> {
  const { resources } = await client.listResources()
  const { resourceTemplates } = await client.listResourceTemplates()
  return [
    ...resources.map(({ uri }) => uri),
    ...resourceTemplates.map(({ uriTemplate }) => uriTemplate.replaceAll(/\{[^}]*\}/g, '1')),
  ]
}

/** Every tool, the sampled ones with their samples, every resource and every prompt, one after the other. */
export async function answersOf(
  sample: Sample,
  { client, folder }: { client: Client; folder: string },
  lists: Listed,
): Promise<[what: string, answer: unknown][]> {
  const samples = sample.calls(folder)
  const sampled = new Set(samples.map(([tool]) => tool))
  const others = lists.tools
    .filter(({ name }) => !sampled.has(name))
    .map(({ name, inputSchema }) => [name, argumentsFor(inputSchema) as JsonObject] as const)
  const answers: [string, unknown][] = [['tools/list', unmarked(await client.listTools())]]
  for (const [name, args] of [...samples, ...others])
    answers.push([name, await outcome(client.callTool({ name, arguments: args }))])
  for (const uri of lists.resources) answers.push([uri, await outcome(client.readResource({ uri }))])
  for (const { name, arguments: named = [] } of lists.prompts) {
    const args = sample.prompts?.[name] ?? Object.fromEntries(named.map(one => [one.name, 'sample']))
    answers.push([name, await outcome(client.getPrompt({ name, arguments: args }))])
  }
  return answers.map(([what, answer]): [string, unknown] => [what, normalized(answer, folder)])
}

/** A list without what usher says of each tool. */
function unmarked(list: object): unknown {
  return JSON.parse(JSON.stringify(list), (name, value: unknown) => {
    if (name === 'usher/access') return undefined
    const isEmptied = name === 'annotations' || name === '_meta'
    return isEmptied && Object.keys(value as object).length === 0 ? undefined : value
  })
}

const CLOCK = [
  /\w{3} \w{3} \d\d \d{4} [\d:]+ GMT[+-]\d{4} \([^)]*\)/g,
  /\d{4}-\d\d-\d\dT[\d:.]+Z/g,
  /\b\d{1,2}:\d\d:\d\d(?:\.\d+)?(?:\s?[AP]M)?/g,
  /\b[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}\b/g,
]

/** As JSON, with folders, times and random ids taken out, from what is encoded, too. */
function normalized(answer: unknown, folder: string): unknown {
  const plain = JSON.stringify(answer, (name, value: unknown) =>
    name === 'blob' && typeof value === 'string' ? Buffer.from(value, 'base64').toString('latin1') : value,
  )
  const text = plain.replaceAll(dirname(folder), '<folder>')
  return JSON.parse(CLOCK.reduce((left, pattern) => left.replaceAll(pattern, '<time or id>'), text))
}
