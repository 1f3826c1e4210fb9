/**
 * contract, "Permission ticket" and "Single-use grant", for both official SDKs' clients, of either revision,
 * with each capability on and off, in front of resources of either revision: the owner is asked once, the
 * call runs once, the answer arrives once, and the client waits in the first way that it can.
 *
 * What an SDK does not offer: that of Python declares forms and links together or neither; neither has tasks
 * of its own, but that of Python takes them as an extension, and that of TypeScript shows them to whoever
 * looks at its messages (test/support/bridge-tasks.ts); tasks of the extension are of 2026-07-28 alone.
 */
import { writeFile } from 'node:fs/promises'
import type { IncomingHttpHeaders } from 'node:http'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Stack } from '../../../src/dev/stack/stack.ts'
import { startToolServer } from '../../../src/dev/stack/tool-server.ts'
import type { PendingItem } from '../../../src/owner/index.ts'
import { s256Json } from '../../../src/wire/encoding.ts'
import {
  bridgeFolder,
  CLIENTS,
  isToRepeat,
  ownerOf,
  pendingOf,
  startBridge,
  type BridgedClient,
  type ClientKind,
  type Elicited,
} from '../../support/bridge.ts'
import { TASKS } from '../../support/bridge-tasks.ts'
import { oldTools } from '../../support/old-tools.ts'
import { rowsOfLayer } from '../../support/layer.ts'
import { startStack } from '../../support/stack.ts'

/**
 * How a client waits: a task; a link to the owner's console; held, and told of it; answered in words, to call
 * again.
 */
type Rung = 'a task' | 'a link' | 'progress' | 'words'

interface Cell {
  kind: ClientKind
  with: string
  capabilities: object
  /** It sends a progress token. */
  listens: boolean
  rung: Rung
}

const FORM = { elicitation: { form: {} } }
const URL = { elicitation: { url: {} } }
const BOTH = { elicitation: { form: {}, url: {} } }

const allCells: Cell[] = CLIENTS.flatMap(kind => {
  const modern = kind.endsWith('2026-07-28')
  const cell = (name: string, capabilities: object, rung: Rung, listens = false): Cell => {
    return { kind, with: name, capabilities, listens, rung }
  }
  return [
    cell('nothing', {}, 'words'),
    ...(kind.startsWith('Python')
      ? [cell('forms and links', BOTH, 'a link')]
      : [cell('forms', FORM, 'words'), cell('links', URL, 'a link')]),
    cell('progress', {}, 'progress', true),
    cell('tasks', TASKS, modern ? 'a task' : 'words'),
    cell('all of it', { ...BOTH, ...TASKS }, modern ? 'a task' : 'a link', true),
  ]
})

/** One for each client, and one for each rung, that of `make test`. */
const QUICK: Partial<Record<ClientKind, string>> = {
  '1.x 2025-11-25': 'links',
  '2.x 2025-11-25': 'progress',
  '2.x 2026-07-28': 'tasks',
  'Python 2025-11-25': 'nothing',
  'Python 2026-07-28': 'all of it',
}
const cells = rowsOfLayer(allCells, cell => QUICK[cell.kind] === cell.with)

/** The resources, by their revision: each has an owner of its own. */
const REVISIONS = ['2026-07-28', '2025-11-25'] as const
/** Of each request as it came, before anything judged it. */
const seen = { '2026-07-28': [] as IncomingHttpHeaders[], '2025-11-25': [] as IncomingHttpHeaders[] }
const stacks: Stack[] = []
let folder: Awaited<ReturnType<typeof bridgeFolder>>
let count = 0

/** A tool server whose requests are looked at as they come. */
function watched(start: typeof startToolServer, into: IncomingHttpHeaders[]): typeof startToolServer {
  return (port, protect) =>
    start(port, handler => {
      const judged = protect?.(handler) ?? handler
      return (request, ...rest) => {
        into.push({ ...request.headers })
        return judged(request, ...rest)
      }
    })
}

beforeAll(async () => {
  const authorityEnvironment = { UMA_AS_POLL_SECONDS: '1' }
  const starts = [startToolServer, oldTools().start]
  const started = await Promise.all(
    REVISIONS.map((revision, at) =>
      startStack({ toolServer: watched(starts[at]!, seen[revision]), authorityEnvironment }),
    ),
  )
  stacks.push(...started)
  folder = await bridgeFolder()
  await writeFile(
    join(folder.folder, 'accepted'),
    `${(await Promise.all(stacks.map(tradingTerms))).join('\n')}\n`,
  )
})
afterAll(async () => {
  for (const stack of stacks) await stack.stop()
  await folder?.remove()
})

/** The hash of the terms of trades, as the owner's console shows it. */
async function tradingTerms({ issuer }: Stack): Promise<string> {
  const { terms } = (await (await fetch(`${issuer}/terms`)).json()) as {
    terms: { terms_uri: string; tier: string }[]
  }
  const of = terms.find(({ tier }) => tier === 'trading')!
  return s256Json((await (await fetch(of.terms_uri)).json()) as object as never)
}

/** What the owner is asked about one trade, oldest first; each is counted once. */
async function askedAbout(stack: Stack, { qty }: { qty: number }): Promise<PendingItem[]> {
  const items = await pendingOf(ownerOf(stack))
  return items.filter(
    ({ operation }) => (operation as { params?: { qty?: number } } | null)?.params?.qty === qty,
  )
}

/**
 * A client of that kind in front of both resources; whoever cannot be shown the terms accepts them
 * beforehand.
 */
function bridged({ kind, with: name, capabilities, rung }: Cell): Promise<BridgedClient> {
  const accepts = 'form' in ((capabilities as typeof BOTH).elicitation ?? {})
  const beforehand = ['--accept-terms', 'any-of', join(folder.folder, 'accepted')]
  const hold = ['--hold', rung === 'words' ? '1' : '60']
  return startBridge({
    kind,
    name: `${kind} with ${name}`,
    resources: stacks.map(({ resource }) => resource),
    state: folder.folder,
    capabilities,
    args: [...hold, '--owner-console', 'https://console.example/', ...(accepts ? [] : beforehand)],
  })
}

/** What the client saw of one trade, which the owner approves once she has been asked. */
async function trade(client: BridgedClient, { rung, listens }: Cell, at: number) {
  const [stack, tool] = [stacks[at]!, `${at === 0 ? 'alice' : 'alice-2'}_place_trade`]
  const given = { symbol: 'VTI', qty: ++count }
  const [elicited, tasks] = [client.elicited.length, client.tasks()]
  const progress: unknown[] = []
  // The SDK of TypeScript tells of its own rounds by the same way.
  const heard = ({ message }: { message?: string | undefined }): void =>
    void (message?.includes('decides') === true && progress.push(message))
  const families = new Set<string>()
  const answers = []
  const call = () => client.call(tool, given, listens ? { onprogress: heard } : {})
  const first = call()
  first.catch(() => undefined)
  if (rung === 'words') answers.push(await first)
  await expect.poll(() => askedAbout(stack, given)).toHaveLength(1)
  if (rung === 'progress') await expect.poll(() => progress.length).toBeGreaterThan(0)
  for (const { family } of await askedAbout(stack, given)) {
    families.add(family)
    await ownerOf(stack).decide(family, 'approved')
  }
  if (rung !== 'words') answers.push(await first)
  while (isToRepeat(answers.at(-1)!)) answers.push(await call())
  for (const { family } of await askedAbout(stack, given)) families.add(family)
  return {
    asked: families.size,
    executed: stack.toolServer.record.executions.filter(
      one => (one.arguments as typeof given).qty === given.qty,
    ).length,
    answered: answers.filter(({ text }) => text === `Bought ${given.qty} VTI`).length,
    words: answers.filter(({ reason, isError }) => reason === 'waiting' && !isError).length > 0,
    shown: client.elicited.slice(elicited).map(({ mode }: Elicited) => mode ?? 'form'),
    tasks: client.tasks() - tasks,
    progress: progress.length > 0,
  }
}

describe('A client in front of resources of either revision has its call made once, and waits in the first way that it can', () => {
  it.each(cells)('$kind with $with: $rung', async cell => {
    const { capabilities, rung, listens } = cell
    const { elicitation } = capabilities as Partial<typeof BOTH>
    const client = await bridged(cell)
    try {
      for (const [at, revision] of REVISIONS.entries())
        expect({ revision, ...(await trade(client, cell, at)) }).toEqual({
          revision,
          asked: 1,
          executed: 1,
          answered: 1,
          words: rung === 'words',
          shown: [
            ...(elicitation !== undefined && 'form' in elicitation ? ['form'] : []),
            ...(rung === 'a link' ? ['url'] : []),
          ],
          tasks: rung === 'a task' ? 1 : 0,
          // Whoever has a task or a link waits by that; who listens is told while it is held.
          progress: listens && rung !== 'a task',
        })
    } finally {
      await client.close()
    }
  })

  it('and whatever was signed for it had its body covered, in the revision that the resource speaks', () => {
    for (const revision of REVISIONS) {
      const signed = seen[revision].filter(headers => headers['signature-input'] !== undefined)
      expect(signed.length).toBeGreaterThanOrEqual(cells.length)
      for (const headers of signed) {
        expect(headers['signature-input']).toContain('"content-digest"')
        expect(headers['content-digest']).toMatch(/^sha-256=:[A-Za-z0-9+/]{43}=:$/)
        expect(headers['mcp-protocol-version']).toBe(revision)
      }
    }
  })
})
