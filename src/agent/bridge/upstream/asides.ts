/**
 * Owns which tools of a server of MCP 2025-11-25 ask their client on the stream of the session (GET), where
 * nobody hears them unless that stream passes. Contract: "Authorized call", enforcement order, 4: a grant for
 * one use is for its one operation, so the stream does not pass under it. Such a tool is called in a session
 * that declares nothing to ask, so it gets its own error at once, in place of a wait for nobody.
 */
import type { ClientCapabilities } from '@modelcontextprotocol/client'
import { isJsonObject } from '../../../wire/json.ts'
import { AgentError } from '../../agent-error.ts'
import type { CallAnswer } from '../../answer.ts'
import type { AskingCall } from '../questions/questions.ts'
import type { UpstreamConnection } from './connections.ts'

/** What is known of the tools of one server, as long as this process lives. */
export interface Asides {
  /** It asked: on the stream of its own call, or aside. */
  noteQuestion: (tool: string, isAside: boolean) => void
  /** Whether it asks on the stream of the session, as far as is known. */
  has: (tool: string) => boolean
  /** Learns from how a call over a connection ended. */
  noteEnd: (call: AskingCall, connection: UpstreamConnection, ended: Ended) => void
}

type Ended = { value: CallAnswer } | { error: unknown }

/** So the SDKs of TypeScript and Python say that a question of theirs was not answered in time. */
const LATE = /timed out/i

/** Whether nobody hears what the server of that connection says outside calls. */
export function isUnheard({ transport, stream }: UpstreamConnection): boolean {
  return transport.sessionId !== undefined && !stream.isOpen
}

/** @param capabilities what the client declares that it can be asked */
export function createAsides(capabilities: () => ClientCapabilities): Asides {
  const aside = new Set<string>()
  const onTheirOwn = new Set<string>()
  return {
    noteQuestion: (tool, isAside) => void (isAside ? aside : onTheirOwn).add(tool),
    has: tool => aside.has(tool),
    noteEnd: ({ tool }, connection, ended) => {
      if (!isUnheard(connection)) return
      const failure = failureOf(ended)
      if (failure === undefined) aside.delete(tool)
      else if (LATE.test(failure) && !onTheirOwn.has(tool) && Object.keys(capabilities()).length > 0)
        aside.add(tool)
    },
  }
}

/** The words with which a tool failed; undefined if it did not. */
function failureOf(ended: Ended): string | undefined {
  if ('error' in ended) return ended.error instanceof AgentError ? (ended.error.rpc?.message ?? '') : ''
  const result = ended.value.kind === 'result' ? ended.value.result : undefined
  if (!isJsonObject(result)) return ''
  if (result['isError'] !== true) return undefined
  const content = Array.isArray(result['content']) ? result['content'] : []
  const texts = content.filter(isJsonObject).map(({ text }) => text)
  return texts.filter(text => typeof text === 'string').join(' ')
}
