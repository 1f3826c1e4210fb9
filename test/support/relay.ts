/** Owns what joins the HTTP face of an MCP session to a server behind another transport. */
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import type { JSONRPCMessage, RequestId } from '@modelcontextprotocol/sdk/types.js'

/**
 * Hands each message on. The messages of a server say no request that they belong to, so they go with the one
 * that came last. `change` is what becomes of each message of the client.
 */
export function relay(
  face: Transport,
  inner: Transport,
  change: (message: JSONRPCMessage) => JSONRPCMessage = message => message,
): void {
  const waiting = new Set<RequestId>()
  face.onmessage = (message: JSONRPCMessage) => {
    if ('method' in message && 'id' in message) waiting.add(message.id)
    void inner.send(change(message))
  }
  inner.onmessage = (message: JSONRPCMessage) => {
    const relatedRequestId = [...waiting].at(-1)
    if (!('method' in message) && 'id' in message && message.id !== undefined) waiting.delete(message.id)
    const about = 'method' in message && relatedRequestId !== undefined ? { relatedRequestId } : {}
    face.send(message, about).catch(() => undefined)
  }
}
