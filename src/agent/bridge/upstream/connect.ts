/**
 * Owns how the bridge connects to a resource: the official SDK's client, what it declares that it can be
 * asked, and how it answers what the server asks and says. Contract: "Authorized call", from the requesting
 * side; "Agreement (claim_token, beat 3)": what a server asks is a stranger's question.
 */
import type { AsyncLocalStorage } from 'node:async_hooks'
import type { Client } from '@modelcontextprotocol/client'
import type { Json } from '../../../wire/json.ts'
import { AgentError } from '../../agent-error.ts'
import { heedMessage } from '../answers/foreign-answer.ts'
import { loadSdk } from '../answers/read-answer.ts'
import { readLog, type UpstreamNotices } from '../notices/logs.ts'
import type { QuestionMethod } from '../questions/asked-back.ts'
import { openQuestions, type Questions, type Reply } from '../questions/questions.ts'
import type { AsideOptions, Asides } from './asides.ts'
import type { UpstreamConnection } from './connections.ts'
import type { Exchange, GrantProof } from './exchange.ts'
import { guardedFetch } from './guarded-fetch.ts'
import { overseen } from './live-session.ts'
import { newStream, reconnectLater, RECONNECTION } from './own-stream.ts'

/** What reaching a resource needs. */
export interface UpstreamOptions extends AsideOptions {
  resource: string
  url: URL
  specNs: string
  now: () => number
  onToolsChanged: () => void
  /** Takes what its server says outside calls. */
  notices?: UpstreamNotices | undefined
  /** A standing grant for the resource, if one is held. */
  standingProof?: (() => Promise<GrantProof | undefined>) | undefined
  /** A call ends after this long, whatever it tells of its progress; an hour if left out. */
  callMillisecondsMax?: number | undefined
  /** How long the answer to `server/discover` is waited for; ten seconds if left out. */
  probeMillisecondsMax?: number | undefined
}

/** `declaresNothing`: the server hears that nobody can be asked, and is answered if it asks all the same. */
export type ConnectOptions = UpstreamOptions & { declaresNothing?: boolean }

/** What a server may ask of a client, and what the client declares that it can be asked. */
const CAPABILITY_OF: Record<QuestionMethod, 'elicitation' | 'sampling' | 'roots'> = {
  'elicitation/create': 'elicitation',
  'sampling/createMessage': 'sampling',
  'roots/list': 'roots',
}
/** The SDK says at once that a list changed, and does not read it. */
const AT_ONCE = { autoRefresh: false, debounceMs: 0 }

/** Connects, in the revision that the resource speaks. */
export async function connectTo(
  options: ConnectOptions,
  underway: AsyncLocalStorage<Exchange>,
  asides: Asides,
): Promise<UpstreamConnection> {
  const { url, resource, onToolsChanged, declaresNothing = false } = options
  const abilities = options.capabilities()
  const sdk = await loadSdk()
  const client = new sdk.Client(
    { name: 'usher-bridge', version: '1.0' },
    {
      capabilities: declaresNothing ? {} : abilities,
      versionNegotiation: { mode: 'auto' },
      inputRequired: { autoFulfill: false },
      listChanged: {
        tools: { ...AT_ONCE, onChanged: onToolsChanged },
        prompts: { ...AT_ONCE, onChanged: () => options.notices?.listChanged('prompts') },
        resources: { ...AT_ONCE, onChanged: () => options.notices?.listChanged('resources') },
      },
    },
  )
  const questions = openQuestions(resource, asides.noteQuestion)
  const stream = newStream()
  await answerQuestions(client, { abilities, declaresNothing, questions, underway })
  client.setNotificationHandler('notifications/message', ({ params }) => {
    const log = readLog(params)
    const exchange = underway.getStore()
    const listener = exchange?.isCall === true ? exchange.onLog : options.notices?.log
    if (log !== undefined) listener?.(log)
  })
  client.setNotificationHandler('notifications/resources/updated', ({ params }) =>
    options.notices?.updated(params.uri),
  )
  const transport = new sdk.StreamableHTTPClientTransport(url, {
    fetch: guardedFetch(options, underway, stream),
    reconnectionOptions: RECONNECTION,
    reconnectionScheduler: reconnectLater,
  })
  transport.onmessage = message => heedMessage(message as unknown as Json, underway.getStore(), url)
  await overseen(underway, signal => client.connect(transport, { signal }))
  return { client, transport, questions, stream }
}

/** Where nothing is declared, the SDK takes no handler of a question, but hands over what it has none for. */
async function answerQuestions(
  client: Client,
  {
    abilities,
    declaresNothing,
    questions,
    underway,
  }: {
    abilities: ReturnType<AsideOptions['capabilities']>
    declaresNothing: boolean
    questions: Questions
    underway: AsyncLocalStorage<Exchange>
  },
): Promise<void> {
  const { ProtocolError, ProtocolErrorCode } = await loadSdk()
  const methods = Object.entries(CAPABILITY_OF)
    .filter(([, capability]) => abilities[capability] !== undefined)
    .map(([method]) => method)
  const answer = async (
    method: string,
    params: unknown,
    { mcpReq }: { mcpReq: { signal: AbortSignal } },
  ): Promise<Reply> => {
    try {
      const question = { method, params: (params ?? {}) as Json }
      return await questions.answer(question, underway.getStore()?.asking, mcpReq.signal)
    } catch (error) {
      const detail = error instanceof AgentError ? error.detail : 'The client left.'
      throw new ProtocolError(ProtocolErrorCode.InvalidRequest, detail)
    }
  }
  if (!declaresNothing) {
    for (const method of methods) {
      const handler = ({ params }: { params?: unknown }, context: never): Promise<Reply> =>
        answer(method, params, context)
      client.setRequestHandler(method as 'roots/list', handler as never)
    }
    return
  }
  client.fallbackRequestHandler = ({ method, params }, context) => {
    if (methods.includes(method)) return answer(method, params, context)
    throw new ProtocolError(ProtocolErrorCode.MethodNotFound, 'Method not found')
  }
}
