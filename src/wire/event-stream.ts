/**
 * Owns the reading of server-sent event streams (WHATWG HTML §9.2.6). Contract: "Events": the owner's
 * notifications travel in one; so does a tool's answer over MCP's Streamable HTTP.
 */
import { refuse } from './refusal.ts'

/**
 * One dispatched event. `type` is `message` if the stream named none; `id` is the last id seen, `''` if
 * none.
 */
export interface ServerSentEvent {
  type: string
  data: string
  id: string
}

/** How many characters may wait for the end of their event. */
const PENDING_LENGTH_MAX = 4 * 1024 * 1024

/**
 * Reads one stream, chunk by chunk, wherever the chunks are cut. `lastEventId` and `retryMilliseconds` are
 * what a reconnecting client needs. An event that is incomplete at the end of the stream is dispatched by
 * `rest` alone.
 */
export class EventStreamReader {
  lastEventId: string
  retryMilliseconds: number | undefined
  readonly #decoder = new TextDecoder('utf-8')
  readonly #pendingLengthMax: number
  /** The line so far, in the pieces that came: only what is new is searched for its end. */
  #pieces: string[] = []
  #piecesLength = 0
  #skipLineFeed = false
  #data: string[] = []
  #dataLength = 0
  #type = ''
  #id: string

  constructor(lastEventId = '', pendingLengthMax = PENDING_LENGTH_MAX) {
    this.lastEventId = lastEventId
    this.#id = lastEventId
    this.#pendingLengthMax = pendingLengthMax
  }

  /** How many characters wait for the end of their event. */
  get pendingLength(): number {
    return this.#piecesLength + this.#dataLength
  }

  /**
   * The events that this chunk completes. Refuses (`invalid_request`) an event that is longer than an event
   * may be, which is 4 Mi characters unless the reader was made for another length.
   */
  read(chunk: Uint8Array): ServerSentEvent[] {
    const events: ServerSentEvent[] = []
    for (const line of this.#takeLines(this.#decoder.decode(chunk, { stream: true }))) {
      const event = this.#readLine(line)
      if (event) events.push(event)
    }
    if (this.pendingLength > this.#pendingLengthMax) refuse('invalid_request', 'Send smaller events.')
    return events
  }

  /**
   * What came of an event that the stream ended in, for a caller that can tell whether it is whole; its id
   * does not count. Undefined if nothing did.
   */
  rest(): ServerSentEvent | undefined {
    const id = this.lastEventId
    this.#readLine(this.#pieces.join('') || ':')
    this.#pieces = []
    this.#piecesLength = 0
    const event = this.#dispatch()
    this.lastEventId = id
    return event && { ...event, id }
  }

  /**
   * The whole lines, without their ends (LF, CR LF or CR). After a CR an LF belongs to it, even in a later
   * chunk.
   */
  #takeLines(text: string): string[] {
    if (text === '') return []
    const lines: string[] = []
    const isSecondHalf = this.#skipLineFeed && text.startsWith('\n')
    const fresh = isSecondHalf ? text.slice(1) : text
    this.#skipLineFeed = text.endsWith('\r')
    let at = 0
    for (const { 0: end, index } of fresh.matchAll(/\r\n|\r|\n/g)) {
      lines.push(this.#pieces.join('') + fresh.slice(at, index))
      this.#pieces = []
      this.#piecesLength = 0
      at = index + end.length
    }
    const rest = fresh.slice(at)
    if (rest !== '') this.#pieces.push(rest)
    this.#piecesLength += rest.length
    return lines
  }

  #readLine(line: string): ServerSentEvent | undefined {
    if (line === '') return this.#dispatch()
    const colon = line.indexOf(':')
    if (colon === 0) return undefined // a comment: the heartbeat
    const name = colon === -1 ? line : line.slice(0, colon)
    const value = colon === -1 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1)
    this.#readField(name, value)
    return undefined
  }

  #readField(name: string, value: string): void {
    if (name === 'event') this.#type = value
    else if (name === 'id' && !value.includes('\0')) this.#id = value
    else if (name === 'retry' && /^\d{1,9}$/.test(value)) this.retryMilliseconds = Number(value)
    else if (name === 'data') {
      this.#data.push(value)
      this.#dataLength += value.length + 1
    }
  }

  #dispatch(): ServerSentEvent | undefined {
    // The id counts only now, because a reader that resumes after the id of an incomplete event would lose
    // that event.
    this.lastEventId = this.#id
    const event = { type: this.#type || 'message', data: this.#data.join('\n'), id: this.lastEventId }
    const empty = this.#data.length === 0
    this.#data = []
    this.#dataLength = 0
    this.#type = ''
    return empty ? undefined : event
  }
}
