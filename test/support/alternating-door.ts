/**
 * Owns one address in front of several replicas, as a balancer would be: each request goes to the next
 * replica in turn, and to another one if that cannot be reached. It can lose an answer, as networks do.
 */
import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import type { StackOptions } from '../../src/dev/stack/stack.ts'

export interface Passage {
  method: string
  path: string
  body: string
}

export interface AlternatingDoor {
  url: string
  /** Origins of the replicas, in turn. */
  replicas: string[]
  /** How many requests each replica has answered. */
  answered: number[]
  /** How many requests each replica is answering now, open streams left out. */
  busy: number[]
  /**
   * The answer to the first request that fits is lost on the way; the replica has given it. `meanwhile` is
   * done before the caller learns that.
   */
  loseAnswer(fits: (passage: Passage) => boolean, meanwhile?: () => Promise<void>): void
  /** Answers that fit are held back, the replica having given them, until the returned function is called. */
  holdAnswers(fits: (passage: Passage) => boolean): () => void
  close(): Promise<void>
}

/** Starts on a port of 127.0.0.1, a free one if none is given; `replicas` may be filled in later. */
export async function startAlternatingDoor(port = 0): Promise<AlternatingDoor> {
  let losing: { fits: (passage: Passage) => boolean; meanwhile?: () => Promise<void> } | undefined
  let holding: { fits: (passage: Passage) => boolean; over: Promise<void> } | undefined
  let turn = 0
  const door: Omit<AlternatingDoor, 'url' | 'close'> = {
    replicas: [],
    answered: [],
    busy: [],
    loseAnswer: (fits, meanwhile) => {
      losing = { fits, ...(meanwhile && { meanwhile }) }
    },
    holdAnswers: fits => {
      const { promise, resolve } = Promise.withResolvers<void>()
      holding = { fits, over: promise }
      return () => {
        holding = undefined
        resolve()
      }
    },
  }

  const pass = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const body = await buffer(request)
    const passage = { method: request.method!, path: request.url!, body: body.toString() }
    const lost = losing?.fits(passage) === true ? losing : undefined
    if (lost) losing = undefined
    // Its own turn: with requests that come together, both tries would go to the one that is down.
    const first = turn++
    for (let tried = 0; tried < door.replicas.length; tried++) {
      const replica = (first + tried) % door.replicas.length
      const answer = await forward(door.replicas[replica]!, request, body, busyWith(door, replica))
      if (answer === 'unreachable') continue
      if (answer === 'broken') break
      door.answered[replica] = (door.answered[replica] ?? 0) + 1
      if (lost) {
        await buffer(answer)
        await lost.meanwhile?.()
        break
      }
      if (holding?.fits(passage) === true) await holding.over
      response.writeHead(answer.statusCode!, answer.rawHeaders)
      answer.pipe(response)
      answer.once('error', () => response.destroy())
      response.once('close', () => answer.destroy())
      return
    }
    request.socket.destroy()
  }

  const server = createServer((request, response) => void pass(request, response))
  await new Promise<void>(resolve => server.listen(port, '127.0.0.1', resolve))
  return Object.assign(door, {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: async () => {
      server.closeAllConnections()
      await new Promise(resolve => server.close(resolve))
    },
  })
}

/** Counts a request as being answered until it is, or is known to be a stream. */
function busyWith(door: { busy: number[] }, replica: number): (by: 1 | -1) => void {
  return by => {
    door.busy[replica] = (door.busy[replica] ?? 0) + by
  }
}

/** `unreachable`: nothing was sent, so another may be asked; `broken`: it may have been done. */
// oxlint-disable-next-line eslint/max-params -- where, what with its body, and who counts
function forward(
  replica: string,
  request: IncomingMessage,
  body: Buffer,
  busy: (by: 1 | -1) => void,
): Promise<IncomingMessage | 'unreachable' | 'broken'> {
  return new Promise(resolve => {
    let connected = false
    busy(1)
    const sent = httpRequest(new URL(request.url!, replica), {
      method: request.method!,
      headers: request.headers,
      agent: false,
    })
    let counted = true
    const done = (): void => {
      if (counted) busy(-1)
      counted = false
    }
    sent.once('socket', socket => socket.once('connect', () => (connected = true)))
    sent.once('error', () => {
      done()
      resolve(connected ? 'broken' : 'unreachable')
    })
    sent.once('response', answer => {
      if (answer.headers['content-type']?.startsWith('text/event-stream') === true) done()
      answer.once('close', done)
      resolve(answer)
    })
    sent.end(body)
  })
}

export interface AuthorityDoors {
  agents: AlternatingDoor
  owner: AlternatingDoor
}

/** The `door` of a stack whose authorities are reached by these. */
export function doorOf({ agents, owner }: AuthorityDoors): NonNullable<StackOptions['door']> {
  return {
    issuer: agents.url,
    ownerApi: owner.url,
    open: ({ authorities }) => {
      agents.replicas.push(...authorities.map(({ url }) => url))
      owner.replicas.push(...authorities.map(({ ownerApi }) => ownerApi))
    },
  }
}
