/**
 * Owns calls over HTTP that a foreign MCP client makes: a `fetch` for the transports of the official SDK.
 * Contract: "Authorized call": the original call is retried with the grant and a signature over it.
 */
import { inexactNumberIn, inexactSentence } from '../../wire/json.ts'
import { CHALLENGE_ERROR } from '../../wire/names.ts'
import { fail, type AgentError } from '../agent-error.ts'
import { challengeIn, refusalIn, type CallAnswer } from '../answer.ts'
import { heed, performCall, standingGrants } from '../authorized-call.ts'
import { callIn } from './mcp.ts'
import { readMessage } from './message.ts'
import type { Directory } from '../negotiation/metadata.ts'
import type { Profile } from '../profile.ts'
import { signedHeaders } from './proof.ts'
import { bodyChunks, DOCUMENT_BYTES_MAX } from './transport.ts'

/**
 * Revisions with sessions open streams and end sessions with these methods, and a server may require a grant
 * for that.
 */
const OF_SESSIONS: readonly string[] = ['GET', 'DELETE']

/**
 * A `fetch` that performs each request POSTed to `url` that a tool's grant may be needed for, and signs
 * requests of a session under a kept standing grant. Refusals are answers, as usual for `fetch`; a failed
 * negotiation rejects with `AgentError`. Redirects are not followed.
 */
export function authorizeFetch(
  url: URL,
  resource: string,
  { profile, directory }: { profile: Profile; directory: Directory },
): typeof fetch {
  return async (input, init = {}) => {
    const { method = 'GET', body } = init
    const at = new URL(input instanceof Request ? input.url : input)
    // Our credentials go nowhere else.
    if (at.href !== url.href || input instanceof Request) return fetch(input, init)
    const send = (accessToken: string | undefined): Promise<Response> => {
      const headers = new Headers(init.headers)
      const text = typeof body === 'string' ? body : undefined
      const proof =
        accessToken === undefined ? {} : signedHeaders({ method, url, body: text, accessToken }, profile)
      for (const [name, value] of Object.entries(proof)) headers.set(name, value)
      return fetch(url, { ...init, headers, redirect: 'manual' })
    }
    const call = method === 'POST' && typeof body === 'string' ? callIn(readMessage(body)) : undefined
    if (call !== undefined) {
      const inexact = inexactNumberIn(body as string)
      if (inexact !== undefined) fail('request_invalid', inexactSentence(inexact))
      const judged = async (accessToken: string | undefined): Promise<CallAnswer<Response>> => {
        const response = await send(accessToken)
        const challenge = challengeIn(profile, response)
        if (challenge === undefined)
          return { kind: 'result', result: response, refusal: await refusalOf(profile, response, url) }
        await response.body?.cancel()
        return { kind: 'challenge', challenge }
      }
      const signal = init.signal ?? undefined
      return (await performCall(profile, directory, { resource, call, signal, send: judged })).outcome
    }
    const [standing] = OF_SESSIONS.includes(method) ? await standingGrants(profile, resource) : []
    const response = await send(standing?.access_token)
    if (standing !== undefined) {
      const refusal = await refusalOf(profile, response, url)
      // A challenge requires more than this grant allows, but does not end the grant.
      if (refusal?.code !== CHALLENGE_ERROR) await heed(profile, standing, refusal)
    }
    return response
  }
}

/**
 * The refusal in an answer, whose body can still be read; undefined if it is no refusal, or longer than any
 * of ours.
 */
async function refusalOf(profile: Profile, response: Response, url: URL): Promise<AgentError | undefined> {
  if (response.status < 400) return undefined
  const chunks: Uint8Array[] = []
  try {
    for await (const chunk of bodyChunks(response.clone(), { url, bytesMax: DOCUMENT_BYTES_MAX }))
      chunks.push(chunk)
  } catch {
    return undefined
  }
  return refusalIn(profile, response, readMessage(Buffer.concat(chunks).toString('utf8')))
}
