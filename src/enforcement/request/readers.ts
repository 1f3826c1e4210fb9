/**
 * Owns which reader a configured resource gets: that of a plain API, or that of MCP with the methods that are
 * opened and mapped and the tools that are split. Contract: "Authorized call".
 */
import type { SidecarConfig, SidecarOwner } from '../../config.ts'
import { apiReader } from './api.ts'
import type { ApiOperation } from './api-table.ts'
import type { RequestReader } from './call-request.ts'
import { readMcp } from './mcp.ts'
import { isStreamFree, methodRules } from './mcp-methods.ts'
import type { Tool } from './routes.ts'
import { toolParts } from './tool-parts.ts'

/** `allowedOrigins`: origins whose browsers may call, as serialized in the Origin header. */
export function readerOf(
  {
    path,
    api,
    methods,
    tools,
  }: Pick<SidecarOwner, 'path' | 'methods'> & {
    api: readonly ApiOperation[] | undefined
    tools: Iterable<Pick<Tool, 'tool' | 'of'>>
  },
  {
    open_methods,
    allowedOrigins,
  }: Pick<SidecarConfig, 'open_methods'> & { allowedOrigins: ReadonlySet<string> },
): RequestReader {
  if (api !== undefined) return apiReader({ base: path, operations: api, allowedOrigins })
  const openMethods = new Set(open_methods)
  const mcp = {
    openMethods,
    isStreamFree: isStreamFree(methods),
    methods: methodRules(methods),
    parts: toolParts(tools),
    allowedOrigins,
  }
  return call => readMcp(call, mcp)
}
