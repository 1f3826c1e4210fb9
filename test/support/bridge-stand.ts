/**
 * Owns what the tests of the bridge share: a whole stack, its owner, a folder of state, and the bridges that
 * were started, ended after each test.
 */
import { afterAll, afterEach, beforeAll, expect } from 'vitest'
import type { Stack } from '../../src/dev/stack/stack.ts'
import type { OwnerClient, PendingItem } from '../../src/owner/index.ts'
import type { JsonObject } from '../../src/wire/json.ts'
import {
  bridgeFolder,
  ownerOf,
  pendingOf,
  startBridge,
  type BridgedClient,
  type BridgeOptions,
} from './bridge.ts'
import { startStack } from './stack.ts'

export interface BridgeStand {
  readonly stack: Stack
  readonly owner: OwnerClient
  /** Of the state of every bridge. */
  readonly folder: string
  /** A number that no other call of the file has. */
  unique: () => number
  /** A bridge for a client of that name; another name is another agent, and so is no name. */
  bridge: (options?: Partial<BridgeOptions>) => Promise<BridgedClient>
  /** Ended after the test, with the rest. */
  ending: (one: { close: () => Promise<unknown> }) => void
  /** How often the tool was executed, or with these arguments. */
  executions: (tool: string, args?: object) => number
  /** The one item that waits, once it does. */
  waiting: () => Promise<PendingItem>
  /** She edits the terms of a tier. */
  changeTerms: (tier: string, change: object) => Promise<void>
}

/** Starts it before the tests of a file; whatever waits when a test ends is denied. */
export function useBridges(
  options: { stack?: Parameters<typeof startStack>[0]; args?: string[] } = {},
): BridgeStand {
  let stack: Stack
  let owner: OwnerClient
  let folder: Awaited<ReturnType<typeof bridgeFolder>>
  const open: { close: () => Promise<unknown> }[] = []
  let count = 0

  beforeAll(async () => {
    stack = await startStack(options.stack ?? {})
    owner = ownerOf(stack)
    folder = await bridgeFolder()
  }, 120_000)
  afterEach(async () => {
    for (const one of open.splice(0)) await one.close().catch(() => undefined)
    for (const { family } of await pendingOf(owner)) await owner.decide(family, 'denied')
  })
  afterAll(async () => {
    await stack?.stop()
    await folder?.remove()
  })

  return {
    get stack() {
      return stack
    },
    get owner() {
      return owner
    },
    get folder() {
      return folder.folder
    },
    unique: () => ++count,
    bridge: async (given = {}) => {
      const started = await startBridge({
        resources: [stack.resource],
        state: folder.folder,
        ...given,
        name: given.name ?? `client ${++count}`,
        args: [...(options.args ?? []), ...(given.args ?? [])],
      })
      open.push(started)
      return started
    },
    ending: one => void open.push(one),
    executions: (tool, args) =>
      stack.toolServer.record.executions.filter(
        one =>
          one.tool === tool && (args === undefined || JSON.stringify(one.arguments) === JSON.stringify(args)),
      ).length,
    waiting: async () => {
      await expect.poll(() => pendingOf(owner)).toHaveLength(1)
      return (await pendingOf(owner))[0]!
    },
    changeTerms: async (id, change) => {
      const tier = (await owner.policies()).find(one => one.id === id)!
      const {
        template_id: _version,
        per_operation: _implied,
        ...terms
      } = tier.terms as Record<string, unknown>
      const body = { ...tier, terms: { ...terms, ...change } } as JsonObject
      await owner.ask({ method: 'PUT', path: `/owner/policies/${id}`, body })
    },
  }
}
