/**
 * Owns one request of a client as it is answered: until when the client waits, what it can do, and how the
 * questions of a server in the middle of it reach the client. Contract: "What the service does": the client
 * is unmodified and knows nothing of it.
 */
import type { ClientCapabilities, Progress, Server, ServerContext } from '@modelcontextprotocol/server'
import type { Json } from '../../wire/json.ts'
import { foreignLine } from './answers/foreign-text.ts'
import { passedMeta } from './answers/message-meta.ts'
import type { Clients, OpenedClient } from './clients.ts'
import type { BridgeOptions } from './core.ts'
import type { MethodParts } from './listing/methods.ts'
import { wordsIn, type Answer, type Client } from './negotiation/completion.ts'
import type { ClientNotices } from './notices/serve-notices.ts'
import { askNow, passQuestion, showNow } from './questions/client-questions.ts'
import type { Leg, LedRequest } from './questions/conversations.ts'
import type { Ask } from './questions/questions.ts'
import { roundIn, type ToolsOwn } from './questions/round-state.ts'
import { TASKS_EXTENSION } from './questions/tasks.ts'

/** The things that requests of a process share. */
export interface ServerParts {
  options: BridgeOptions
  clients: Clients
  /** Clients of 2026-07-28 are notified of changes by a request of their own, and not here. */
  listening?: boolean
  /** Acts once the answer to a request has been written, and never if it was not. */
  whenSent(id: string | number, act: () => Promise<void>): void
  /** Called with the wait for the servers behind the bridge, which comes before the first answer. */
  onIntroducing?: (introductions: Promise<unknown>) => void
  /** Aborted when nobody is left to be answered. */
  disconnect?: () => AbortSignal | undefined
  /** The name under which the client of this request was let in, which goes before what it calls itself. */
  callerName?: () => string | undefined
}

/** A client, by what it can do in this request. */
export interface ConnectedClient extends OpenedClient {
  capabilities: ClientCapabilities
}

/** One request of a client, and the server that serves it. */
export interface ClientRequest extends ConnectedClient {
  server: Server
  context: ServerContext
  modern: boolean
  notices: ClientNotices
}

/** Until when the client waits, what it hears meanwhile, and what is done once it has its answer. */
export function legOf(
  shared: ServerParts,
  { context, notices }: Pick<ClientRequest, 'context' | 'notices'>,
): Omit<Leg, 'about' | 'sealed'> {
  const { mcpReq } = context
  const disconnect = shared.disconnect?.()
  const signal = disconnect === undefined ? mcpReq.signal : AbortSignal.any([mcpReq.signal, disconnect])
  return {
    signal,
    onDelivered: act => void (signal.aborted || shared.whenSent(mcpReq.id, act)),
    ...progressTo(context),
    onLog: notices.logListener(context),
  }
}

/**
 * The answer to a request whose server may ask in the middle of it: a client of 2026-07-28 gets the question
 * in its place, and brings the word with its next request.
 */
export async function inRounds(
  { modern, capabilities, conversations }: ClientRequest,
  leg: Leg,
  { ask, goOn }: Pick<ClientSide, 'ask' | 'goOn'>,
  run: (led: LedRequest) => Promise<Answer>,
): Promise<Answer> {
  if (!modern || !isAskable(capabilities)) return run({ ...leg, ask })
  return goOn?.(leg) ?? conversations.begin(leg, run)
}

/** How a person is asked in the middle of a request (2025-11-25). */
function askingNow(
  server: Server,
  context: ServerContext,
  capabilities: ClientCapabilities,
): Pick<Client, 'askNow' | 'showNow'> {
  const { form, url } = abilitiesOf(capabilities)
  return {
    ...(form ? { askNow: (message, signal) => askNow(server, message, signal) } : {}),
    ...(url
      ? { showNow: (message, link, signal) => showNow(server, context, { message, link, signal }) }
      : {}),
  }
}

function abilitiesOf({ elicitation }: ClientCapabilities): { form: boolean; url: boolean } {
  const form = elicitation !== undefined && (elicitation.form !== undefined || elicitation.url === undefined)
  return { form, url: elicitation?.url !== undefined }
}

/** Whether a tool's server may ask the client anything. */
function isAskable({ elicitation, sampling, roots }: ClientCapabilities): boolean {
  return [elicitation, sampling, roots].some(capability => capability !== undefined)
}

/** What a request that is no tool call is answered with. */
export function methodParts(shared: ServerParts, calling: ClientRequest): MethodParts {
  const { server, context, capabilities, bridge, modern, notices } = calling
  const { holdSeconds, ownerConsole } = shared.options
  return {
    bridge,
    holdSeconds,
    ownerConsole,
    client: modern ? {} : askingNow(server, context, capabilities),
    meta: passedMeta(context.mcpReq._meta, notices.levelOf(context)),
    answer: async ({ about, mayAskBack }, run) => {
      const side = await clientSide(calling, about)
      const leg = { ...legOf(shared, calling), about, sealed: side.client.sealed }
      // Its answer has no place for a question, so a client of 2026-07-28 cannot be asked.
      if (modern && !mayAskBack) return run({ ...leg, ask: undefined, own: {} })
      return inRounds(calling, leg, side, led => run({ ...led, own: side.passed }))
    },
  }
}

/** The client's abilities for this request, and which of its words belong to the tool. */
export async function clientSide(calling: ClientRequest, call: Json): Promise<ClientSide> {
  const { server, context, modern, capabilities, tasks, bridge, conversations } = calling
  const { extensions } = capabilities
  const { form, url } = abilitiesOf(capabilities)
  const { about, own, seal } = await roundIn({ secret: await bridge.secret(), call }, context)
  const { inputResponses } = context.mcpReq
  const words = about === undefined ? {} : { ...wordsIn(inputResponses), about }
  const client: ClientSide['client'] = {
    form: modern && form,
    url: modern && url,
    words,
    sealed: state => seal(state.about),
    ...(modern && extensions?.[TASKS_EXTENSION] !== undefined
      ? { toTask: (request, call, name) => tasks.create(request, call, name) }
      : {}),
    ...(modern ? {} : askingNow(server, context, capabilities)),
  }
  return {
    client,
    passed: own,
    ...(!modern && isAskable(capabilities)
      ? { ask: (question, signal) => passQuestion(server, question, signal) }
      : {}),
    ...(about === undefined ? {} : { goOn: leg => conversations.goOn(about, inputResponses, leg) }),
  }
}

interface ClientSide {
  client: Omit<Client, 'progress'>
  passed: ToolsOwn
  /** Asks the person in the middle of the call (2025-11-25). */
  ask?: Ask
  /** Continues the call for which the client brings an answer (2026-07-28). */
  goOn?: (leg: Leg) => Promise<Answer> | undefined
}

/**
 * Progress of the wait, one small step further each time, and progress of the tool, whose text comes from a
 * stranger. Together they never go back. Without a token, nobody listens.
 */
function progressTo({ mcpReq }: ServerContext): Pick<Leg, 'waited' | 'onProgress'> {
  const progressToken = mcpReq._meta?.progressToken
  if (progressToken === undefined) return { waited: undefined, onProgress: undefined }
  let reached = 0
  const tell = (report: Progress): Promise<void> =>
    mcpReq.notify({ method: 'notifications/progress', params: { progressToken, ...report } })
  return {
    waited: message => tell({ progress: (reached += 0.001), message }),
    onProgress: ({ progress, total, message }) => {
      if (reached > 0 && progress <= reached) return
      reached = Math.max(reached, progress)
      const more = total === undefined ? {} : { total }
      const words = message === undefined ? {} : { message: foreignLine(message) }
      void tell({ progress, ...more, ...words }).catch(() => undefined)
    },
  }
}
