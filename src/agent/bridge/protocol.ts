/**
 * Owns the codes, media types and members of JSON-RPC and MCP that several files of the bridge read or write.
 * Contract: "Authorized call", from the requesting side.
 */
import { RPC_ERROR } from '../../wire/names.ts'

export const JSON_TYPE = 'application/json'
export const EVENT_STREAM_TYPE = 'text/event-stream'

/** Codes of JSON-RPC errors. The official SDK sends `sessionNotFound` for a session that it does not know. */
export const RPC_CODE = {
  connectionRefused: -32_000,
  sessionNotFound: -32_001,
  /** MCP 2025-11-25: a call fails because its server wants a page to be visited first. */
  pageRequired: -32_042,
  methodNotFound: RPC_ERROR.methodNotFound,
  invalidParams: -32_602,
  internalError: -32_603,
} as const

/** What a server says of the effects of a tool (MCP, `ToolAnnotations`). */
export const TOOL_HINTS = ['readOnlyHint', 'destructiveHint', 'idempotentHint', 'openWorldHint'] as const
