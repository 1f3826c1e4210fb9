/**
 * Owns a call as plain data, and the CheckRequest that a proxy would make of it, signed afresh whenever it is
 * built. What is signed and what is sent can differ, and the tests find out what happens then.
 */
import { contentDigest } from '../../src/wire/encoding.ts'
import { signRequest } from '../../src/wire/signatures/http-signature.ts'
import { Refusal } from '../../src/wire/refusal.ts'
import { nowSeconds } from '../enforcement/calls.ts'
import { checkBytes, type HttpFacts } from '../support/check-client.ts'
import { AGENT, STRANGER, type GrantName, type KnownGrants } from './known-grants.ts'

/** What the agent signs; if left out, what is sent. */
export interface SigningFacts {
  method?: string
  path?: string
  query?: string
  authority?: string
  /** Seconds from now. */
  created?: number
  expires?: number
  label?: string
  keyid?: string | false
  nonce?: string
  tag?: string
  components?: string[]
  byStranger?: boolean
  /** The digest that is sent and covered is of this text, not of the body. */
  digestOf?: string
}

export interface SentCall {
  method?: string
  path?: string
  query?: string
  body: string
  /** The body is Base64, not text. */
  bodyIsBase64?: boolean
  grant: GrantName | 'none'
  /** The whole value of Authorization, `{token}` standing for the grant. */
  authorization?: string
  signing?: SigningFacts | undefined
  /** A digest of the body is sent and covered. */
  digest?: boolean
  headers?: Record<string, string>
  /** How the proxy shows header fields and body. */
  raw: boolean
  context?: Record<string, string>
  size?: number
}

const COMPONENTS = ['@method', '@authority', '@path', 'authorization']

/** The header fields of the call, signed where it says so. */
export function headersOf(call: SentCall, grants: Pick<KnownGrants, 'tokens'>): Record<string, string> {
  const { signing } = call
  const token = call.grant === 'none' ? undefined : grants.tokens[call.grant]
  const template = call.authorization ?? (token === undefined ? undefined : 'PoP {token}')
  const authorization = template?.replaceAll('{token}', token ?? 'none')
  const headers: Record<string, string> = { 'content-type': 'application/json' }
  if (authorization !== undefined) headers['authorization'] = authorization
  if (call.digest === true) headers['content-digest'] = contentDigest(signing?.digestOf ?? bodyOf(call))
  if (signing !== undefined) Object.assign(headers, signatureOf(call, signing, headers))
  return { ...headers, ...call.headers }
}

type Signature = Record<string, string>

/** Signatures of this second: they hang on few things, and making one costs more than all else here. */
const made = new Map<string, Signature>()
let madeAt = 0

function signatureOf(
  { method = 'POST', path = '/mcp/alice', query, digest = false }: SentCall,
  signing: SigningFacts,
  headers: Record<string, string>,
): Signature {
  const now = nowSeconds()
  if (madeAt !== now) made.clear()
  madeAt = now
  const { authorization = '', 'content-digest': sentDigest } = headers
  const key = JSON.stringify([method, path, query, signing, authorization, sentDigest])
  const known = made.get(key)
  if (known !== undefined) return known
  const { label, keyid, nonce, tag } = signing
  const signedQuery = signing.query ?? query
  const message = {
    method: signing.method ?? method,
    scheme: 'https' as const,
    authority: signing.authority ?? 'tools.example.com',
    path: signing.path ?? path,
    query: signedQuery,
    headers: new Map(Object.entries({ ...headers, authorization }).map(([name, value]) => [name, [value]])),
  }
  const more = [...(signedQuery === undefined ? [] : ['@query']), ...(digest ? ['content-digest'] : [])]
  const signature = signedOrNot(message, signing.byStranger === true ? STRANGER : AGENT, {
    components: signing.components ?? [...COMPONENTS, ...more],
    created: now + (signing.created ?? 0),
    expires: signing.expires === undefined ? undefined : now + signing.expires,
    ...(label === undefined ? {} : { label }),
    ...(keyid === undefined ? {} : { keyid }),
    ...(nonce === undefined ? {} : { nonce }),
    ...(tag === undefined ? {} : { tag }),
  })
  made.set(key, signature)
  return signature
}

/** What no signer would sign is sent unsigned. */
function signedOrNot(...signing: Parameters<typeof signRequest>): Signature {
  try {
    return signRequest(...signing)
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return {}
  }
}

/** The bytes of the body. */
export function bodyOf({ body, bodyIsBase64 }: Pick<SentCall, 'body' | 'bodyIsBase64'>): Buffer {
  return Buffer.from(body, bodyIsBase64 === true ? 'base64' : 'utf8')
}

/** The CheckRequest, as a proxy that shows raw bytes, or text, would make it. */
export function checkOf(call: SentCall, headers: Record<string, string>): Buffer {
  const { method = 'POST', path = '/mcp/alice', query, raw, context, size } = call
  const bytes = bodyOf(call)
  const facts: HttpFacts = {
    method,
    path: query === undefined ? path : `${path}?${query}`,
    ...(raw
      ? {
          header_map: {
            headers: Object.entries(headers).map(([key, value]) => ({ key, raw_value: Buffer.from(value) })),
          },
          raw_body: bytes,
        }
      : { headers, body: bytes.toString('utf8') }),
    ...(size === undefined ? {} : { size }),
  }
  return checkBytes(facts, {
    source: { address: { socket_address: { address: '203.0.113.9' } } },
    ...(context === undefined ? {} : { context_extensions: context }),
  })
}
