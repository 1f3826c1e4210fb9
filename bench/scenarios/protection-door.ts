/**
 * Owns asking the authority as an enforcement point does, without one: introspect and consume.
 */
import { Agent } from 'undici'
import { isJsonObject, parseJson, type JsonObject } from '../../src/wire/json.ts'
import type { WorldOfOwner } from '../world.ts'

export interface ProtectionDoor {
  introspect(token: string): Promise<JsonObject>
  consume(token: string): Promise<JsonObject>
  close(): Promise<void>
}

/** Fetches a PAT, and keeps connections: one, for one call at a time, if nothing else is said. */
export async function openProtection(
  { issuer, owner, clientId, clientSecret }: WorldOfOwner,
  { connections = 1 }: { connections?: number } = {},
): Promise<ProtectionDoor> {
  const http = new Agent({ connections, pipelining: 1, keepAliveTimeout: 60_000 })
  const post = async (path: string, type: string, body: string, pat?: string): Promise<JsonObject> => {
    const headers = { 'content-type': type, ...(pat === undefined ? {} : { authorization: `Bearer ${pat}` }) }
    const answer = await http.request({ origin: issuer, path, method: 'POST', headers, body })
    const text = await answer.body.text()
    if (answer.statusCode !== 200) throw new Error(`${path} answered ${answer.statusCode} ${text}`)
    const value = parseJson(text)
    if (!isJsonObject(value)) throw new Error(`${path} answered no object`)
    return value
  }
  const credentials = new URLSearchParams({
    grant_type: 'client_credentials',
    scope: 'uma_protection',
    owner,
    client_id: clientId,
    client_secret: clientSecret,
  })
  const { access_token } = await post('/token', 'application/x-www-form-urlencoded', credentials.toString())
  const ask = (path: string, token: string): Promise<JsonObject> =>
    post(path, 'application/json', JSON.stringify({ token }), access_token as string)
  return {
    introspect: token => ask('/introspect', token),
    consume: token => ask('/consume', token),
    close: () => http.close(),
  }
}
