/**
 * Owns the address of an organization, for tests: it passes requests to the real one behind it, records every
 * request as it came, and answers in its place if a test makes it hostile, slow or silent.
 */
import { createServer, type IncomingMessage } from 'node:http'
import { buffer } from 'node:stream/consumers'

/** A request as its bytes were. */
export interface AskedOf {
  method: string
  path: string
  headers: IncomingMessage['headers']
  body: string
}

export interface Said {
  status: number
  body: unknown
}

/** What is said in place of the real answer, or nothing for ever. */
export type Instead = (said: Said, asked: AskedOf) => Said | 'silence' | Promise<Said>

export interface OrganizationDoor {
  asked: AskedOf[]
  /** How many requests came to a path. */
  count(path: string): number
  /** From now on a path is answered so; undefined: as the real one does. */
  instead(path: string, say: Instead | undefined): void
  /** Forgets requests, and whatever is said in place. */
  reset(): void
  close(): void
}

/** Listens at a port of 127.0.0.1 in front of `behind()`, an origin. */
export async function startOrganizationDoor(port: number, behind: () => string): Promise<OrganizationDoor> {
  const asked: AskedOf[] = []
  const instead = new Map<string, Instead>()
  const pathOf = (url: string): string => url.split('?')[0]!
  const server = createServer((request, response) => {
    void (async () => {
      const body = (await buffer(request)).toString()
      const { url: path, method, headers } = request as { url: string; method: string } & IncomingMessage
      const one = { method, path, headers, body }
      asked.push(one)
      const real = await passOn(behind(), one)
      const say = instead.get(pathOf(path))
      if (say === undefined) {
        response.writeHead(real.status, real.headers).end(real.text)
        return
      }
      const json: unknown = real.text === '' ? undefined : JSON.parse(real.text)
      const said = await say({ status: real.status, body: json }, one)
      if (said === 'silence') return
      const text = typeof said.body === 'string' ? said.body : JSON.stringify(said.body)
      response.writeHead(said.status, { 'content-type': 'application/json' }).end(text)
    })()
  })
  await new Promise<void>(resolve => server.listen(port, '127.0.0.1', resolve))
  return {
    asked,
    count: path => asked.filter(one => pathOf(one.path) === path).length,
    instead: (path, say) => void (say === undefined ? instead.delete(path) : instead.set(path, say)),
    reset: () => {
      asked.length = 0
      instead.clear()
    },
    close: () => {
      server.closeAllConnections()
      server.close()
    },
  }
}

async function passOn(
  origin: string,
  { method, path, headers, body }: AskedOf,
): Promise<{ status: number; headers: Record<string, string>; text: string }> {
  const { connection: _connection, 'content-length': _length, ...kept } = headers
  const answer = await fetch(origin + path, {
    method,
    // The organization judges what was signed by its issuer, wherever it listens.
    headers: kept as Record<string, string>,
    ...(method === 'GET' ? {} : { body }),
  })
  const type = answer.headers.get('content-type')
  const etag = answer.headers.get('etag')
  return {
    status: answer.status,
    headers: { ...(type && { 'content-type': type }), ...(etag && { etag }) },
    text: await answer.text(),
  }
}
