/**
 * Owns a proxy in front of the tally of a story. It passes everything on unchanged until the story makes the
 * tally lie: the operator of a tally has its key, its address and every answer. Contract: "Tally for a
 * jointly held resource" (it decides nothing). Development only.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { isJsonObject, parseJson, type Json, type JsonObject } from '../../wire/json.ts'
import { parseJws, signJws } from '../../wire/signatures/jws.ts'
import type { PrivateKey } from '../../wire/signatures/keys.ts'

export interface TurnedTally {
  /** Where everybody reaches the tally. */
  url: string
  /** Sets the address of the tally itself. */
  lead(to: string): void
  /**
   * Makes another grant from one that it gave, with one more scope, under the key of the tally. From then on
   * it answers about the new grant as about the original. @returns the token.
   */
  inflate(token: string, scope: string, key: PrivateKey): string
  stop(): Promise<void>
}

/** The original of each forged token. */
interface Inflated {
  token: string
  scope: string
}

/** Starts it on a free loopback port. */
export async function startTurnedTally(): Promise<TurnedTally> {
  let tally = ''
  const inflated = new Map<string, Inflated>()
  const server = createServer((request, response) => {
    pass(request, response, { tally, inflated }).catch(() => response.destroy())
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    lead: to => (tally = to),
    inflate: (token, scope, key) => {
      const made = signJws({ typ: 'at+jwt', payload: widened(parseJws(token).payload, scope) }, key)
      inflated.set(made, { token, scope })
      return made
    },
    stop: () => stop(server),
  }
}

async function pass(
  request: IncomingMessage,
  response: ServerResponse,
  { tally, inflated }: { tally: string; inflated: Map<string, Inflated> },
): Promise<void> {
  const { method = 'GET', url = '/', headers } = request
  const body = await buffer(request)
  const form = new URLSearchParams(url === '/introspect' ? body.toString() : '')
  const lie = inflated.get(form.get('token') ?? '')
  if (lie !== undefined) form.set('token', lie.token)
  const sent = lie === undefined ? body : Buffer.from(form.toString())
  const { host: _host, connection: _connection, 'content-length': _length, ...otherHeaders } = headers
  const answer = await fetch(new URL(url, tally), {
    method,
    headers: Object.entries(otherHeaders).map(([name, value]) => [name, String(value)] as [string, string]),
    redirect: 'manual',
    ...(method === 'GET' || method === 'HEAD' ? {} : { body: new Uint8Array(sent) }),
  })
  const text = Buffer.from(await answer.arrayBuffer())
  const answerBody =
    lie === undefined ? text : Buffer.from(JSON.stringify(widened(parseJson(text), lie.scope)))
  const passed = [...answer.headers].filter(([name]) => !['connection', 'content-length'].includes(name))
  response.writeHead(answer.status, Object.fromEntries(passed)).end(answerBody)
}

/** The same claims or answer, with one scope more on each resource. */
function widened(answer: Json, scope: string): JsonObject {
  const claims = isJsonObject(answer) ? answer : {}
  const permissions = Array.isArray(claims['permissions']) ? claims['permissions'].filter(isJsonObject) : []
  return {
    ...claims,
    permissions: permissions.map(one => ({
      ...one,
      resource_scopes: [...(one['resource_scopes'] as string[]), scope],
    })),
  }
}

function stop(server: Server): Promise<void> {
  return new Promise(resolve => {
    server.close(() => resolve())
    server.closeAllConnections()
  })
}
