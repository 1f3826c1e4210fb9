/**
 * Owns a gateway's end of `/check` in tests: it sends exactly the method, target and header lines that it is
 * given.
 */
import { Agent, request } from 'node:http'

export interface HttpCheck {
  method?: string
  /** The target as it stands in the request line. */
  target: string
  /** One character per byte. */
  lines?: [name: string, value: string][]
  body?: Buffer
}

export interface HttpAnswer {
  status: number
  /** Lines by lower-case name; without those of the connection. */
  headers: Record<string, string[]>
  body: string
}

export interface HttpCheckClient {
  check: (check: HttpCheck) => Promise<HttpAnswer>
  /** Starts a check that can be given up. */
  start: (check: HttpCheck) => { cancel: () => void; done: Promise<HttpAnswer> }
  close: () => void
}

const OF_THE_CONNECTION = ['connection', 'keep-alive', 'date', 'content-length', 'transfer-encoding']

/** A client of `127.0.0.1:port` or `unix:/path`. */
export function httpCheckClient(address: string): HttpCheckClient {
  const agent = new Agent({ keepAlive: true })
  const [host, port] = address.split(':') as [string, string]
  const place = host === 'unix' ? { socketPath: port } : { host, port: Number(port) }
  const start: HttpCheckClient['start'] = ({ method = 'GET', target, lines = [], body }) => {
    const sent = request({ ...place, agent, method, path: target })
    const byName = Map.groupBy(lines, ([name]) => name.toLowerCase())
    for (const [name, values] of byName)
      sent.setHeader(
        name,
        values.map(([, value]) => value),
      )
    if (body !== undefined) sent.setHeader('content-length', body.length)
    const done = new Promise<HttpAnswer>((resolve, reject) => {
      sent.on('error', reject)
      sent.on('response', answer => {
        const chunks: Buffer[] = []
        answer.on('data', (chunk: Buffer) => chunks.push(chunk))
        answer.on('error', reject)
        answer.on('end', () => {
          const headers = Object.fromEntries(
            Object.entries(answer.headersDistinct).filter(([name]) => !OF_THE_CONNECTION.includes(name)),
          ) as Record<string, string[]>
          resolve({ status: answer.statusCode!, headers, body: Buffer.concat(chunks).toString() })
        })
      })
    })
    sent.end(body)
    return { cancel: () => sent.destroy(), done }
  }
  return { check: check => start(check).done, start, close: () => agent.destroy() }
}
