/**
 * Owns which tools of a server of MCP 2025-11-25 ask their client on the stream of the session (GET), where
 * nobody hears them unless that stream passes. Contract: "Authorized call", enforcement order, 4: a grant for
 * one use is for its one operation, so the stream does not pass under it. Such a tool is called in a session
 * that declares nothing to ask, so that it gets its own error at once, in place of a wait for nobody.
 */
import type { ClientCapabilities } from '@modelcontextprotocol/client'
import { isJsonObject } from '../../../wire/json.ts'
import { AgentError } from '../../agent-error.ts'
import type { CallAnswer } from '../../answer.ts'
import { foreignLine } from '../answers/foreign-text.ts'
import type { AskingCall } from '../questions/questions.ts'
import type { UpstreamConnection } from './connections.ts'

/** Where a tool asks its client: on the stream of its call, or on that of the session. */
export type QuestionStream = 'call' | 'session'

/** What is kept about the tools of one server when this process ends. */
export interface AsideMemory {
  /** Undefined if it is not known. */
  read: (tool: string) => Promise<QuestionStream | undefined>
  /** Without a stream, what was kept is forgotten. */
  keep: (tool: string, stream: QuestionStream | undefined) => Promise<void>
}

/** What is needed to learn it. */
export interface AsideOptions {
  /** The abilities of the bridge's client for a tool that asks back. */
  capabilities: () => ClientCapabilities
  /** If left out, it is known as long as this process lives. */
  asides?: AsideMemory | undefined
  /** Called when a tool was found to ask where nobody hears it. */
  onAside?: ((tool: string) => void) | undefined
  /** A call that failed sooner than this did not wait for an answer in vain; five seconds if left out. */
  vainMillisecondsMin?: number | undefined
}

/** What is known of the tools of one server. */
export interface Asides {
  /** It asked: on the stream of its own call, or aside. */
  noteQuestion: (tool: string, isAside: boolean) => void
  /** Whether it asks on the stream of the session, as far as is known. */
  has: (tool: string) => Promise<boolean>
  /** Learns from how a call ended. */
  noteEnd: (call: Pick<AskingCall, 'tool' | 'questionCount'>, end: CallEnd) => void
}

interface CallEnd {
  answer: { value: CallAnswer } | { error: unknown }
  /** Since it was sent, or its server last said something about it. */
  milliseconds: number
  /** Whether nobody heard the stream of the session when it was sent. */
  wasUnheard: boolean
}

/** The official SDK's servers wait a minute for an answer, and some a few minutes. */
const VAIN_MILLISECONDS_MIN = 5000

/** Whether nobody hears what the server of that connection says outside calls. */
export function isUnheard({ transport, stream }: UpstreamConnection): boolean {
  return transport.sessionId !== undefined && !stream.isOpen
}

/** What is known of the tools of one server, at first what is kept. */
export function createAsides(options: AsideOptions): Asides {
  const { capabilities, asides: memory, vainMillisecondsMin = VAIN_MILLISECONDS_MIN } = options
  const streams = new Map<string, QuestionStream>()
  const note = (tool: string, stream: QuestionStream | undefined): void => {
    if (streams.get(tool) === stream) return
    if (stream === undefined) streams.delete(tool)
    else streams.set(tool, stream)
    // A note is no part of the answer of the call: without it the next process learns the same again.
    void memory?.keep(tool, stream).catch(() => undefined)
  }
  return {
    noteQuestion: (tool, isAside) => note(tool, isAside ? 'session' : 'call'),
    has: async tool => {
      const stream = streams.get(tool) ?? (await memory?.read(tool).catch(() => undefined))
      if (stream !== undefined) streams.set(tool, stream)
      return stream === 'session'
    },
    noteEnd: ({ tool, questionCount }, { answer, milliseconds, wasUnheard }) => {
      if (!wasUnheard) return
      const known = streams.get(tool)
      const outcome = outcomeOf(answer)
      if (outcome === 'success' && known === 'session') note(tool, undefined)
      const isInVain = outcome === 'failure' && milliseconds >= vainMillisecondsMin && questionCount === 0
      if (!isInVain || known !== undefined || Object.keys(capabilities()).length === 0) return
      note(tool, 'session')
      options.onAside?.(tool)
    },
  }
}

/** What the person at the terminal should know; escaped. */
export function asideText(resource: string, tool: string): string {
  return (
    `${resource}: ${foreignLine(tool)} failed after a long silence. It may have waited for an answer to a ` +
    'question on the stream of its session (GET), which does not pass, so from now on its server hears that ' +
    'nobody can be asked. `GET: free` below `methods` at its enforcement point lets that stream pass.'
  )
}

/** What the tool came to; undefined if that was said by somebody before it. */
function outcomeOf(answer: CallEnd['answer']): 'success' | 'failure' | undefined {
  if ('error' in answer) {
    const { error } = answer
    if (!(error instanceof AgentError)) return undefined
    return error.rpc !== undefined || error.code === 'outcome_unknown' ? 'failure' : undefined
  }
  if (answer.value.kind !== 'result') return undefined
  const { result } = answer.value
  return isJsonObject(result) && result['isError'] !== true ? 'success' : 'failure'
}
