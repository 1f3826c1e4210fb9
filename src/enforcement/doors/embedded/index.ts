/**
 * The public API of `@usher-authz/usher/embedded`: enforcement inside a resource. Contract: "What the
 * service does" (`ENFORCEMENT_MODE=embedded`). Reaches no gRPC and no database.
 */
export { ConfigFault, embed, type EmbedOptions, type EnforcementPoint } from './main.ts'
export type { Caller } from './admission.ts'
export type { Middleware, NodeHandler } from './node-handler.ts'
export type { McpTransport } from './mcp-transport.ts'
