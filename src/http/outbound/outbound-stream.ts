/**
 * Owns requests of our servers whose answers are read as they come and may stay open for hours. Contract:
 * "Events" (server-sent events); to whom they may go is as for every other request.
 */
import { Agent, type Dispatcher } from 'undici'
import { faultOf, OutboundFault } from './outbound-fault.ts'
import { connector, keepingTargets, TIMEOUT_MS, type OutboundOptions } from './outbound-reach.ts'
import type { OutboundRequest } from './outbound.ts'

export interface StreamRequest extends Pick<OutboundRequest, 'method' | 'url' | 'headers' | 'body'> {
  /** The time until the head of the answer, connecting included; 5,000 when left out. */
  timeoutMs?: number
  /** The stream counts as broken once nothing came for so long. */
  silenceMs: number
  /** Told of each piece of an answer with status 200, the first of them perhaps before `open` resolves. */
  onData: (chunk: Buffer) => void
}

export interface OpenedStream {
  /** If it is not 200, the body is not read, and the stream has ended already. */
  status: number
  /** Resolves once nothing more comes, however that came about. */
  ended: Promise<void>
  /** Ends it from here. */
  close(): void
}

export interface OutboundStreams {
  /**
   * Sends once, and resolves when the head of the answer is there. Throws `OutboundFault` if there is none.
   */
  open(request: StreamRequest): Promise<OpenedStream>
  /** Ends every stream, and frees every socket. */
  close(): Promise<void>
}

/** Opens a client; nothing is connected until first use. Each stream has a connection of its own. */
export function createOutboundStreams(options: OutboundOptions): OutboundStreams {
  const agent = new Agent({ pipelining: 1, keepAliveTimeout: 1, connect: connector(options) })
  const targetOf = keepingTargets(options)
  return {
    open: async message => {
      const { method = 'GET', body = null } = message
      const headers = { 'accept-encoding': 'identity', ...message.headers }
      // Times are kept here, to the millisecond, but for silence, in which seconds do.
      const times = { headersTimeout: 0, bodyTimeout: message.silenceMs }
      const request = { ...targetOf(message.url), method, headers, body, ...times }
      return opened(agent, request, {
        ms: message.timeoutMs ?? options.timeoutMs ?? TIMEOUT_MS,
        onData: message.onData,
      })
    },
    close: async () => {
      if (!agent.destroyed) await agent.destroy()
    },
  }
}

function opened(
  agent: Agent,
  request: Dispatcher.DispatchOptions & { origin: string },
  { ms, onData }: { ms: number; onData: (chunk: Buffer) => void },
): Promise<OpenedStream> {
  return new Promise((resolve, reject) => {
    const { promise: ended, resolve: end } = Promise.withResolvers<void>()
    let connection: Dispatcher.DispatchController | undefined
    let isOver = false
    const over = (fault: OutboundFault): void => {
      clearTimeout(timer)
      isOver = true
      end()
      reject(fault)
      connection?.abort(fault)
    }
    const sent = (): boolean => connection !== undefined
    const timer = setTimeout(
      () => over(new OutboundFault('timeout', `${request.origin} did not answer in time`, { sent: sent() })),
      Math.max(1, ms),
    )
    const close = (): void =>
      over(new OutboundFault('aborted', `the stream of ${request.origin} was closed`, { sent: true }))
    const handler: Dispatcher.DispatchHandler = {
      onRequestStart: controller => {
        connection = controller
        // The request was given up while it was being connected.
        if (isOver)
          controller.abort(new OutboundFault('aborted', 'nobody waits for it any more', { sent: true }))
      },
      onResponseStart: (_controller, status) => {
        if (status < 200) return
        clearTimeout(timer)
        resolve({ status, ended, close })
        if (status !== 200) close()
      },
      onResponseData: (_controller, chunk) => {
        if (!isOver) onData(chunk)
      },
      onResponseEnd: () => end(),
      onResponseError: (_controller, error) => over(faultOf(error, request.origin, sent())),
    }
    try {
      agent.dispatch(request, handler)
    } catch (error) {
      over(faultOf(error as Error, request.origin, sent()))
    }
  })
}
