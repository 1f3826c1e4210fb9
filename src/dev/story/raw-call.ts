/**
 * Owns tool calls made by hand, header by header: what an ordinary client sends, and what a thief or a forger
 * would send. Contract: "Authorized call". Our own agent would not send these.
 */
import { EventStreamReader } from '../../wire/event-stream.ts'
import { isJsonObject, jsonIn, type Json, type JsonObject } from '../../wire/json.ts'
import type { PrivateKey } from '../../wire/signatures/keys.ts'
import { signedFields } from '../../wire/signatures/sent-request.ts'

/** Which tool, with which arguments. */
export interface RawCall {
  resource: string
  tool: string
  arguments?: JsonObject | undefined
  /** Where it is sent, if not to the resource itself: another gateway in front of it. */
  through?: string | undefined
}

/** The credential of a call, as its sender makes it. */
export interface RawCredential {
  token: string
  /** Signs the request; if left out, it has no signature. */
  key?: PrivateKey | undefined
  /** `PoP` when left out. */
  scheme?: string | undefined
  /** Changes one bit of the signature. */
  forge?: boolean | undefined
  /** Sent along, unsigned. */
  headers?: Record<string, string> | undefined
}

/** What came back: the body as JSON if it is JSON, `undefined` otherwise. */
export interface RawReply {
  status: number
  headers: Headers
  json: Json | undefined
}

const ANSWER_TIMEOUT_MS = 15_000

/** Sends an MCP tools/call (2025-11-25, which needs no `_meta`) and reads the answer. */
export async function callByHand(call: RawCall, credential?: RawCredential): Promise<RawReply> {
  const { tool, resource } = call
  const params = { name: tool, ...(call.arguments && { arguments: call.arguments }) }
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params })
  const response = await fetch(call.through ?? resource, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2025-11-25',
      ...credential?.headers,
      ...(credential && credentialHeaders(resource, body, credential)),
    },
    body,
    signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS),
  })
  return {
    status: response.status,
    headers: response.headers,
    json: readBody(response, new Uint8Array(await response.arrayBuffer())),
  }
}

/** What a tool said, if the answer is a tool's. */
export function toolText({ json }: Pick<RawReply, 'json'>): string | undefined {
  const result = isJsonObject(json) ? (json['result'] ?? json) : undefined
  const content = isJsonObject(result) ? result['content'] : undefined
  const [first] = Array.isArray(content) ? content : []
  return isJsonObject(first) && typeof first['text'] === 'string' ? first['text'] : undefined
}

/** The code and the sentence of a refusal. */
export function refusalIn({ json }: RawReply): { error: string | undefined; sentence: string | undefined } {
  const { error, error_description } = isJsonObject(json) ? json : ({} as JsonObject)
  const text = (value: Json | undefined): string | undefined =>
    typeof value === 'string' ? value : undefined
  return { error: text(error), sentence: text(error_description) }
}

/** Why a call with credentials was challenged: the first sentence of the answer. */
export function whyChallenged(answer: RawReply): string | undefined {
  return refusalIn(answer).sentence?.split('. ')[0]
}

function credentialHeaders(
  resource: string,
  body: string,
  credential: RawCredential,
): Record<string, string> {
  const { token, key, scheme = 'PoP', forge = false } = credential
  const headers = { authorization: `${scheme} ${token}` }
  if (key === undefined) return headers
  const signed = signedFields({ method: 'POST', url: new URL(resource), headers, body }, key, {
    created: Math.floor(Date.now() / 1000),
    keyid: key.thumbprint,
  })
  return forge ? { ...signed, signature: flipOneBit(signed.signature) } : signed
}

/** The same signature but for one bit, still well-formed. */
function flipOneBit(field: string): string {
  return field.replace(/:(.*):$/, (_, encoded: string) => {
    const bytes = Buffer.from(encoded, 'base64')
    bytes[0]! ^= 1
    return `:${bytes.toString('base64')}:`
  })
}

/** A JSON body, or the first message in the event stream that the 2025-11-25 revision answers with. */
function readBody({ headers }: Response, body: Uint8Array): Json | undefined {
  const isStream = headers.get('content-type')?.toLowerCase().startsWith('text/event-stream') === true
  const event = isStream ? new EventStreamReader().read(body).find(({ data }) => data !== '') : undefined
  return jsonIn(event?.data ?? body)
}
