/**
 * Owns which reader a configured resource gets: that of a plain API, or that of MCP with the methods that are
 * opened and mapped. Contract: "Authorized call".
 */
import type { SidecarConfig, SidecarOwner } from '../../config.ts'
import { apiReader } from './api.ts'
import type { ApiOperation } from './api-table.ts'
import type { RequestReader } from './call-request.ts'
import { readMcp } from './mcp.ts'
import { methodRules } from './mcp-methods.ts'

/** `allowedOrigins`: origins whose browsers may call, as serialized in the Origin header. */
export function readerOf(
  {
    path,
    api,
    methods,
  }: Pick<SidecarOwner, 'path' | 'methods'> & { api: readonly ApiOperation[] | undefined },
  {
    open_methods,
    allowedOrigins,
  }: Pick<SidecarConfig, 'open_methods'> & { allowedOrigins: ReadonlySet<string> },
): RequestReader {
  if (api !== undefined) return apiReader({ base: path, operations: api, allowedOrigins })
  const mcp = { openMethods: new Set(open_methods), methods: methodRules(methods), allowedOrigins }
  return call => readMcp(call, mcp)
}
