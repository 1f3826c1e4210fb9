/**
 * Owns the look at the servers behind the gateway when a sidecar starts. Contract: "Resource server
 * enforcement point": a sidecar passes nothing on by itself, so a server that answers nothing, or 404 at its
 * path, is otherwise first met by an agent whose call the owner approved.
 */
import type { SidecarOwner } from '../../config.ts'
import { OutboundFault } from '../../http/outbound/outbound-fault.ts'
import { statusOf } from '../../http/outbound/reached-server.ts'

/** A request of MCP that asks for nothing. */
const PING = { jsonrpc: '2.0', id: 1, method: 'ping' }
const AT_ONCE = 8

/**
 * Asks each server that `upstream` names, once, and tells `onFault` a sentence with the remedy if it answers
 * nothing, or 404. Never throws, and ends early when `signal` aborts.
 */
export async function lookAtUpstreams(
  owners: readonly Pick<SidecarOwner, 'owner' | 'path' | 'upstream'>[],
  { onFault, signal }: { onFault: (sentence: string) => void; signal?: AbortSignal },
): Promise<void> {
  const byUrl = new Map<string, { of: string; path: string }>()
  for (const { owner, path, upstream } of owners)
    if (upstream !== undefined && !byUrl.has(upstream)) byUrl.set(upstream, { of: owner, path })
  const waiting = [...byUrl]
  const lookAtSome = async (): Promise<void> => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const [url, { of, path }] = next
      const fault = await faultOf(url, path, signal)
      if (signal?.aborted === true) return
      if (fault !== undefined) onFault(`${of}: ${fault}`)
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, lookAtSome))
}

async function faultOf(url: string, path: string, signal?: AbortSignal): Promise<string | undefined> {
  try {
    if ((await statusOf(url, PING, signal)) !== 404) return undefined
    return `the server at ${url} (upstream) answers 404, and so it would to every call that is let through. Servers of the MCP SDKs listen at /mcp. Correct upstream to the path at which your server listens, and let the gateway rewrite ${path} to it ("Your server's own path" in docs/attaching.md).`
  } catch (error) {
    if (!(error instanceof OutboundFault)) throw error
    return `the server behind the gateway does not answer: ${error.message}. Calls that are let through would fail. Start it, or correct upstream (${url}); leave upstream out if the gateway alone may reach it.`
  }
}
