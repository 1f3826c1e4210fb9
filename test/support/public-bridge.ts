/**
 * Owns the way through the bridge to servers that nobody here wrote, before a resource that embeds usher: all
 * servers are one resource, which is one of them at a time, and its owner is asked once.
 */
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { parse, stringify } from 'yaml'
import type { Stack } from '../../src/dev/stack/stack.ts'
import { bridgeFolder, ownerOf, pendingOf, repeated, startBridge } from './bridge.ts'
import { CLIENT_NAME, newFolder, stdioOf, type Sample } from './public-servers.ts'
import type { Closers, Opened, Surveyed } from './public-ways.ts'
import { servedStdio } from './served-stdio.ts'
import { startStack } from './stack.ts'
import { until } from './until.ts'
import { usherProgram } from './usher-program.ts'

/** What the bridge shows of a tool as its server wrote it. */
const SHOWN = ['name', 'title', 'inputSchema', 'outputSchema']

/** docs/bridge.md: a tool that its server runs as a task alone is closed. */
const TASK_ONLY = 'simulate-research-query'
const OWN = new Map([
  [
    TASK_ONLY,
    {
      content: [
        {
          type: 'text',
          text: `The server runs ${TASK_ONLY} as a task alone, which usher does not do. The tool did not run, and the owner was not asked. (task_required) Calling it again changes nothing.`,
        },
      ],
      isError: true,
      _meta: { 'usher/reason': 'task_required', 'usher/terminal': true },
    },
  ],
])

/** Each client gets a process of the bridge, and one of the server. */
export async function behindBridge(surveyed: readonly Surveyed[], open: Closers): Promise<Opened> {
  const folders = new Map<string, string>()
  const served = servedStdio(name =>
    stdioOf(surveyed.find(({ sample }) => sample.name === name)!.sample, folders.get(name)!),
  )
  const begin = (sample: Sample, folder: string): void => {
    folders.set(sample.name, folder)
    served.current = sample.name
  }
  const stack = await startStack({
    toolServer: served.start,
    changeSidecar: yaml => Promise.resolve(withEveryTool(yaml, surveyed)),
  })
  open.push(() => stack.stop(), served.end)
  const state = await bridgeFolder()
  open.push(state.remove)
  const { folder, remove } = newFolder()
  open.push(async () => remove())
  begin(surveyed[0]!.sample, folder)
  const [call] = surveyed[0]!.sample.calls(folder)
  const terms = await agreedTerms(stack, state.folder, call!)
  return {
    connect: async (client, sample, itsFolder) => {
      begin(sample, itsFolder)
      const env = { PATH: process.env['PATH']!, HOME: state.folder, UMA_DEV_LOOPBACK: 'true' }
      await client.connect(
        new StdioClientTransport({
          command: process.execPath,
          args: [usherProgram(), 'agent', 'bridge', stack.resource, '--accept-terms', terms],
          env: { ...env, UMA_BRIDGE_STATE: state.folder },
          stderr: 'ignore',
        }),
      )
    },
    asked: () =>
      stack.toolServer.record.arrivals.filter(({ headers }) => headers['x-uma-family'] !== undefined).length,
    listed: SHOWN,
    own: OWN,
  }
}

/** The hash of the terms, once the owner has let the client in on them. */
async function agreedTerms(
  stack: Stack,
  state: string,
  [tool, args]: [tool: string, args: object],
): Promise<string> {
  const options = { name: CLIENT_NAME, resources: [stack.resource], state }
  const headless = await startBridge(options)
  const { text } = await headless.call(tool, args)
  await headless.close()
  const [, hash] = /--accept-terms (\S+)/.exec(text) ?? []
  if (hash === undefined) throw new Error(`the bridge names no terms: ${text}`)
  const agreeing = await startBridge({ ...options, args: ['--accept-terms', hash] })
  const answer = repeated(() => agreeing.call(tool, args))
  answer.catch(() => undefined)
  const owner = ownerOf(stack)
  await until(async () => (await pendingOf(owner)).length === 1)
  await owner.decide((await pendingOf(owner))[0]!.family, 'approved')
  await answer
  await agreeing.close()
  return hash
}

/** Every tool and method of every server under the grant of her portfolio. */
function withEveryTool(yaml: string, surveyed: readonly Surveyed[]): string {
  const settings = parse(yaml) as { owners: [Record<string, unknown>] }
  const names = new Set(surveyed.flatMap(({ proposal }) => proposal.tools.map(({ tool }) => tool)))
  const tools = [...names].map(tool => ({
    tool,
    resource_id: 'alice/portfolio',
    scopes: ['read'],
    consequence: 'reversible',
  }))
  const mapped = surveyed.flatMap(({ proposal }) => Object.entries(proposal.methods))
  const methods = mapped.map(([method, tool]) => [method, tool === 'free' ? tool : { tool }])
  const owner = { ...settings.owners[0], tools, methods: { ...Object.fromEntries(methods), GET: 'free' } }
  return stringify({ ...settings, owners: [owner] })
}
