/**
 * Owns which clients a bridge serves: each is known by its own name and never confused with another, and a
 * tool that asks back learns what that client can do. Contract: "Connection" (one owner sees one agent, which
 * is one client).
 */
import { ProtocolError, ProtocolErrorCode, type ClientCapabilities } from '@modelcontextprotocol/server'
import { createConversations, type Conversations } from './questions/conversations.ts'
import { openBridge, type Bridge, type BridgeOptions } from './core.ts'
import type { ListName } from './notices/logs.ts'
import { createTasks, type Tasks } from './questions/tasks.ts'

/** The bridge as one client has it. */
export interface OpenedClient {
  bridge: Bridge
  tasks: Tasks
  conversations: Conversations
}

export interface Clients {
  /**
   * Fails with `ProtocolError` without a name, and for one client too many. Requests of earlier processes are
   * taken care of from then on, unless the client only `greets`: its first call comes before that.
   */
  open(name: string | undefined, capabilities: ClientCapabilities, greets?: boolean): OpenedClient
  /** If a name is given, requests of earlier processes are taken care of before the client says anything. */
  prepare(): void
  /** Called with the list of any of them that changed. */
  onChanged(listener: (list: ListName) => void): void
  close(): Promise<void>
}

interface Known extends OpenedClient {
  name: string
  /** Undefined until it has said so. */
  capabilities: ClientCapabilities | undefined
  isSwept: boolean
}

/** How many clients there may be, because each has a folder, connections and a list of tools. */
const CLIENTS_MAX = 32

export function openClients(options: BridgeOptions): Clients {
  const opened: Known[] = []
  const listeners: ((list: ListName) => void)[] = []
  const add = (name: string, capabilities: ClientCapabilities | undefined): Known => {
    if (opened.length >= CLIENTS_MAX)
      throw new ProtocolError(
        ProtocolErrorCode.InvalidRequest,
        `This bridge serves ${CLIENTS_MAX} clients already. Start another one, or restart this one.`,
      )
    const bridge = openBridge(options, name, () => passedOf(known.capabilities))
    const tasks = createTasks(bridge.calls, () => Math.floor(Date.now() / 1000))
    const conversations = createConversations()
    const known: Known = { name, capabilities, bridge, tasks, conversations, isSwept: false }
    opened.push(known)
    bridge.onChanged(list => {
      for (const listener of listeners) listener(list)
    })
    return known
  }
  const sweep = (known: Known): void => {
    if (known.isSwept) return
    known.isSwept = true
    void known.bridge.calls.sweep().catch(() => undefined)
  }
  return {
    open: (name, capabilities, greets = false) => {
      if (name === undefined || name === '')
        throw new ProtocolError(
          ProtocolErrorCode.InvalidParams,
          'This request names no client, so nobody can tell whose consent counts for it. Send clientInfo with a name, or start the bridge with --client-name.',
        )
      const named = opened.filter(one => one.name === name)
      const kind = kindOf(capabilities)
      const known =
        named.find(one => one.capabilities !== undefined && kindOf(one.capabilities) === kind) ??
        named.find(one => one.capabilities === undefined) ??
        add(name, capabilities)
      known.capabilities ??= capabilities
      if (!greets) sweep(known)
      return known
    },
    prepare: () => {
      if (options.clientName !== undefined) sweep(add(options.clientName, undefined))
    },
    onChanged: listener => void listeners.push(listener),
    close: async () => {
      await Promise.all(opened.map(({ bridge }) => bridge.close()))
    },
  }
}

/** The part of its capabilities that a resource gets to know. */
function passedOf(capabilities: ClientCapabilities | undefined): ClientCapabilities {
  const { elicitation, sampling, roots } = capabilities ?? {}
  return {
    ...(elicitation === undefined ? {} : { elicitation }),
    // Neither with tools nor with what other servers said.
    ...(sampling === undefined ? {} : { sampling: {} }),
    ...(roots === undefined ? {} : { roots: {} }),
  }
}

/**
 * Two windows of one client that can do different things share keys and grants on disk; resources learn the
 * abilities of each.
 */
function kindOf({ elicitation, sampling, roots }: ClientCapabilities): string {
  const { form, url } = elicitation ?? {}
  const shows = elicitation && [form !== undefined || url === undefined, url !== undefined]
  return JSON.stringify([shows ?? 'no', sampling !== undefined, roots !== undefined])
}
