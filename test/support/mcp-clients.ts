/**
 * Owns the official SDK's clients as tests use them: what they send is signed if there is a grant; they
 * themselves know nothing of it.
 */
import { Client as Client2, StreamableHTTPClientTransport as Http2 } from '@modelcontextprotocol/client'
import { Client as Client1 } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as Http1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { signedHeaders } from '../../src/agent/transports/proof.ts'
import type { PrivateKey } from '../../src/wire/signatures/keys.ts'
import { nowSeconds } from '../enforcement/calls.ts'

/** What a client calls with, and what was seen of it. */
export interface Wallet {
  key: PrivateKey
  /** Set: whatever is sent is signed under it. */
  token?: string | undefined
  /** Further header fields of each request. */
  headers?: Record<string, string>
  /** Of each request, in order. */
  versions: (string | null)[]
  /** The answers that were denials; but for 405, which a client asks for. */
  denied: Pick<Response, 'status' | 'headers'>[]
}

export const newWallet = (key: PrivateKey): Wallet => ({ key, versions: [], denied: [] })

/** A `fetch` for the transports of both SDKs: it signs for `resource`, wherever the request goes. */
export function signingFetch(wallet: Wallet, resource: string): typeof fetch {
  return async (url, init = {}) => {
    const headers = new Headers(init.headers)
    wallet.versions.push(headers.get('mcp-protocol-version'))
    for (const [name, value] of Object.entries(wallet.headers ?? {})) headers.set(name, value)
    const { token: accessToken, key } = wallet
    if (accessToken !== undefined) {
      const body = typeof init.body === 'string' ? init.body : undefined
      const request = { method: init.method ?? 'GET', url: new URL(resource), body, accessToken }
      const proof = signedHeaders(request, { key, now: nowSeconds })
      for (const [name, value] of Object.entries(proof)) headers.set(name, value)
    }
    const response = await fetch(url, { ...init, headers })
    const { status, headers: told } = response
    // A clone is not used, because a client that cancels its own branch of a body would wait for ours.
    if (status >= 400 && status !== 405) wallet.denied.push({ status, headers: told })
    return response
  }
}

/** A client of either SDK that is connected, with its transport. */
export interface Connected {
  client: Client1 | Client2
  transport: Http1 | Http2
}

const NAME = { name: 'test', version: '1' }

/** A client of the SDK 1.x: revision 2025-11-25. */
export async function connect1(
  url: URL,
  fetch: typeof globalThis.fetch,
): Promise<{ client: Client1; transport: Http1 }> {
  const [client, transport] = [new Client1(NAME), new Http1(url, { fetch })]
  await client.connect(transport)
  return { client, transport }
}

/**
 * A client of the SDK 2.x: pinned to a revision, finding it out (`auto`), or shaking hands as 2025-11-25 does
 * (`legacy`).
 */
export async function connect2(
  url: URL,
  fetch: typeof globalThis.fetch,
  mode: 'legacy' | 'auto' | { pin: string },
): Promise<{ client: Client2; transport: Http2 }> {
  const [client, transport] = [new Client2(NAME, { versionNegotiation: { mode } }), new Http2(url, { fetch })]
  await client.connect(transport)
  return { client, transport }
}
