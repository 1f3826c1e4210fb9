/**
 * Owns the bridge's connection to one resource: made when somebody needs it, made again when it is lost, and
 * closed when the calls over it have ended. Contract: "Authorized call", from the requesting side.
 */
import type { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { AgentError } from '../../agent-error.ts'
import type { OwnStream } from './own-stream.ts'
import type { Questions } from '../questions/questions.ts'

export interface UpstreamConnection {
  client: Client
  transport: StreamableHTTPClientTransport
  questions: Questions
  stream: OwnStream
  /** Whether the server proves that it forgot the session: asked, or being asked. */
  forgotten?: Promise<boolean> | undefined
}

export interface UpstreamConnections {
  current: () => Promise<UpstreamConnection>
  /** A call over a connection, which is not closed before it has ended. */
  using: <T>(connection: UpstreamConnection, call: () => Promise<T>) => Promise<T>
  /**
   * The next one that is needed is another; this one is closed when the calls over it have ended. False if
   * another caller noticed the loss already.
   */
  lose: (connection: UpstreamConnection) => boolean
  /**
   * A step that changes nothing, retried once over another connection if the present one fails.
   */
  repeatable: <T>(step: (connection: UpstreamConnection) => Promise<T>) => Promise<T>
  close: () => Promise<void>
}

/** Keeps one connection at a time. */
export function keepConnected(connectNow: () => Promise<UpstreamConnection>): UpstreamConnections {
  let connected: Promise<UpstreamConnection> | undefined
  let latest: UpstreamConnection | undefined
  /**
   * How many calls are under way over each; those that were lost are among them as long as they have any.
   */
  const calls = new Map<UpstreamConnection, number>()
  const end = ({ client }: UpstreamConnection): Promise<void> => client.close().catch(() => undefined)
  const current = async (): Promise<UpstreamConnection> => {
    connected ??= connectNow()
    const mine = connected
    try {
      return (latest = await mine)
    } catch (error) {
      if (connected === mine) connected = undefined
      throw error
    }
  }
  const lose = (connection: UpstreamConnection): boolean => {
    if (latest !== connection) return false
    latest = connected = undefined
    if (!calls.has(connection)) void end(connection)
    return true
  }
  return {
    current,
    lose,
    using: async (connection, call) => {
      calls.set(connection, (calls.get(connection) ?? 0) + 1)
      try {
        return await call()
      } finally {
        const left = calls.get(connection)! - 1
        if (left > 0) calls.set(connection, left)
        else calls.delete(connection)
        if (left === 0 && connection !== latest) void end(connection)
      }
    },
    repeatable: async step => {
      const before = latest
      const connection = await current()
      try {
        return await step(connection)
      } catch (error) {
        if (connection !== before || error instanceof AgentError) throw error
        lose(connection)
        return step(await current())
      }
    },
    close: async () => {
      const last = await connected?.catch(() => undefined)
      latest = connected = undefined
      await Promise.all([...new Set([...calls.keys(), ...(last === undefined ? [] : [last])])].map(end))
    },
  }
}
