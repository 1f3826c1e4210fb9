/**
 * Owns what servers say outside calls, for the sessions of one client: log messages, and changes of resources
 * that are followed. Contract: "What the service does"; "Authorized call": what a server is asked for here is
 * asked under a standing grant that is held, and nobody is asked for one.
 */
import type { ToolCall } from '../../transports/mcp.ts'
import type { GrantProof } from '../upstream/exchange.ts'
import type { Upstream } from '../upstream/upstream.ts'
import { CHANGED_MILLISECONDS, spaced } from '../listing/spaced.ts'
import { createFollowingAgain } from './following-again.ts'
import {
  limitLogs,
  leastOf,
  type ListName,
  type Log,
  type McpLogLevel,
  type UpstreamNotices,
} from './logs.ts'
import { createSubscriptions, type Subscriptions } from './subscriptions.ts'

export interface Notices {
  /** The least grave level that a session wants; `session` is any object of its own. */
  wantLevel: (session: object, level: McpLogLevel) => Promise<void>
  /** Called with messages that belong to no call, until the returned function is called. */
  onLog: (listener: (log: Log) => void) => () => void
  subscriptions: Subscriptions
  /** Tells the server, as far as it hears, that nobody follows this any more. */
  unfollow: (resource: string, uri: string) => Promise<void>
  /** The session is over. */
  leave: (session: object) => void
  /** Takes what the server of a resource says. */
  from: (resource: string) => UpstreamNotices
  close: () => void
}

interface NoticesParts {
  resources: readonly string[]
  upstreamOf: (resource: string) => Upstream
  standingProof: (resource: string) => Promise<GrantProof | undefined>
  /** Notifies the client that a list is another one. */
  changed: (list: ListName) => void
}

export function createNotices({ resources, upstreamOf, standingProof, changed }: NoticesParts): Notices {
  const seldom = {
    prompts: spaced(() => changed('prompts'), CHANGED_MILLISECONDS),
    resources: spaced(() => changed('resources'), CHANGED_MILLISECONDS),
  }
  const levels = new Map<object, McpLogLevel>()
  const listeners = new Set<(log: Log) => void>()
  const subscriptions = createSubscriptions()
  const tell = (log: Log): void => {
    for (const listener of listeners) listener(log)
  }
  /**
   * What a server does not hear changes nothing for the client: it is told less, or more, than it wants.
   * False if the server did not take it.
   */
  const send = async (resource: string, call: ToolCall): Promise<boolean> => {
    const proof = await standingProof(resource).catch(() => undefined)
    const answer = await upstreamOf(resource)
      .send({ call, proof })
      .catch(() => undefined)
    return answer?.kind === 'result'
  }
  const ask = (resource: string, method: string, params: ToolCall['params']): Promise<boolean> =>
    send(resource, { tool: method, method, ...(params === undefined ? {} : { params }) })
  const sendLevel = async (resource: string): Promise<void> => {
    const level = leastOf(levels.values())
    const upstream = upstreamOf(resource)
    if (level === undefined || !(await upstream.hasLevels().catch(() => false))) return
    await ask(resource, 'logging/setLevel', { level })
  }
  const unfollow: Notices['unfollow'] = async (resource, uri) => {
    const upstream = upstreamOf(resource)
    upstream.unfollow(uri)
    const call = await upstream.followingCall(uri).catch(() => undefined)
    if (call?.method === 'resources/subscribe') await ask(resource, 'resources/unsubscribe', { uri })
  }
  const followAgain = createFollowingAgain({ upstreamOf, subscriptions, send })
  return {
    wantLevel: async (session, level) => {
      levels.set(session, level)
      await Promise.all(resources.map(sendLevel))
    },
    onLog: listener => {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
    subscriptions,
    unfollow,
    leave: session => void levels.delete(session),
    from: resource => ({
      log: limitLogs(tell),
      listChanged: list => seldom[list].act(),
      updated: uri => subscriptions.updated(resource, uri),
      lost: uri => followAgain.later(resource, uri),
      again: () => {
        void sendLevel(resource)
        for (const uri of subscriptions.of(resource)) followAgain.now(resource, uri)
      },
    }),
    close: () => {
      for (const { close } of Object.values(seldom)) close()
      subscriptions.close()
      followAgain.close()
    },
  }
}
