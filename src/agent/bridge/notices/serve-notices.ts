/**
 * Owns logging and subscriptions towards one client: a client of MCP 2025-11-25 sets a level for its session
 * and subscribes to resources, one of 2026-07-28 names a level with each request. Contract: "What the service
 * does": the client is unmodified.
 */
import {
  ProtocolError,
  ProtocolErrorCode,
  type Server,
  type ServerContext,
} from '@modelcontextprotocol/server'
import type { JsonObject } from '../../../wire/json.ts'
import { LOG_LEVEL } from '../answers/message-meta.ts'
import type { Bridge } from '../core.ts'
import { ask, foundPlace, handle, textIn, type MethodParts } from '../listing/methods.ts'
import { isGraveEnough, levelIn, type Log, type McpLogLevel } from './logs.ts'
import type { Follower } from './subscriptions.ts'

/** What a server that serves them declares. */
export const NOTICE_CAPABILITIES = { logging: {} } as const

/** Logging and subscriptions of one client's server. */
export interface ClientNotices {
  /** Takes the messages of a call, for a client that wants any. */
  logListener: (context: ServerContext) => ((log: Log) => void) | undefined
  /** The level that the client named: for its session, or with this request. */
  levelOf: (context: ServerContext) => McpLogLevel | undefined
  /** The client gets what belongs to no call from here on. Returns what ends that. */
  hear: (bridge: Bridge) => () => void
}

/** A session that sets none gets what is worth a person's attention. */
const LEVEL_BY_DEFAULT: McpLogLevel = 'info'

/** Adds them to the server. `partsOf` reads who asks, and by which abilities. */
export function addNotices(
  server: Server,
  modern: boolean,
  partsOf: (context: ServerContext) => MethodParts,
  withSdkErrors: <T>(outcome: Promise<T>) => Promise<T>,
): ClientNotices {
  let least: McpLogLevel | undefined
  const send = (method: string, params: JsonObject): void =>
    void server.notification({ method, params }).catch(() => undefined)
  const follower: Follower = { updated: uri => send('notifications/resources/updated', { uri }) }
  if (!modern) {
    handle(server, 'logging/setLevel', async (params, context) => {
      const level = levelIn(params['level'])
      if (level === undefined)
        throw new ProtocolError(ProtocolErrorCode.InvalidParams, 'Send level as one of the levels of MCP.')
      least = level
      await partsOf(context).bridge.notices.wantLevel(server, level)
      return {}
    })
    addSubscriptions(server, follower, { partsOf, withSdkErrors })
  }
  const levelOf = ({ mcpReq }: ServerContext): McpLogLevel | undefined =>
    modern ? levelIn((mcpReq.envelope as Record<string, unknown> | undefined)?.[LOG_LEVEL]) : least
  return {
    levelOf,
    logListener: context => {
      const level = levelOf(context) ?? (modern ? undefined : LEVEL_BY_DEFAULT)
      if (level === undefined) return undefined
      return log => {
        // A session may change its level while the call runs.
        if (!isGraveEnough(log.level, modern ? level : (least ?? level))) return
        const sent = context.mcpReq.notify({ method: 'notifications/message', params: log })
        sent.catch(() => undefined)
      }
    },
    hear: ({ notices }) => {
      if (modern) return () => undefined
      const end = notices.onLog(log => {
        if (isGraveEnough(log.level, least ?? LEVEL_BY_DEFAULT)) send('notifications/message', log)
      })
      return () => {
        end()
        notices.leave(server)
        for (const { resource, uri } of notices.subscriptions.leave(follower))
          void notices.unfollow(resource, uri)
      }
    },
  }
}

function addSubscriptions(
  server: Server,
  follower: Follower,
  {
    partsOf,
    withSdkErrors,
  }: {
    partsOf: (context: ServerContext) => MethodParts
    withSdkErrors: <T>(outcome: Promise<T>) => Promise<T>
  },
): void {
  handle(server, 'resources/subscribe', async (params, context) => {
    const parts = partsOf(context)
    const { notices, upstreamOf } = parts.bridge
    const uri = textIn(params, 'uri')
    const place = await withSdkErrors(foundPlace(parts, uri))
    const call = await withSdkErrors(upstreamOf(place).followingCall(uri))
    if (call?.method === undefined)
      throw new ProtocolError(
        ProtocolErrorCode.MethodNotFound,
        'The server of this resource takes no subscriptions.',
      )
    if (!notices.subscriptions.add(follower, place, uri))
      throw new ProtocolError(
        ProtocolErrorCode.InvalidRequest,
        'This session follows as many resources as it may: end a subscription first.',
      )
    try {
      return await withSdkErrors(ask(parts, place, call.method, call.params ?? {}))
    } catch (error) {
      notices.subscriptions.remove(follower, place, uri)
      throw error
    }
  })
  handle(server, 'resources/unsubscribe', async (params, context) => {
    const parts = partsOf(context)
    const uri = textIn(params, 'uri')
    const place = await withSdkErrors(foundPlace(parts, uri))
    if (parts.bridge.notices.subscriptions.remove(follower, place, uri))
      await parts.bridge.notices.unfollow(place, uri)
    return {}
  })
}
