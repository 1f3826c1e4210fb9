/**
 * Owns what an agent reports about a running call. Contract: "What the service does", beats 1 to 4: one event
 * each, so that an observer can follow the negotiation.
 */
import type { RequestKind } from '../wire/negotiation/negotiation.ts'
import type { TermsTemplate } from '../wire/negotiation/terms.ts'
import type { ToolCall } from './transports/mcp.ts'
import type { Grant } from './store.ts'

/** Times are in seconds. Quoted texts (terms, realm) come from others: escape them before showing them. */
export type AgentEvent =
  | { type: 'calling'; resource: string; call: ToolCall; grant: 'none' | 'kept' | 'fresh' }
  | { type: 'challenged'; as_uri: string; scope: string; realm: string }
  | { type: 'authority_confirmed'; as_uri: string; metadata: string }
  | { type: 'identity_presented'; issuer: string }
  | { type: 'terms_offered'; template: TermsTemplate }
  | { type: 'terms_declined'; template: TermsTemplate }
  | { type: 'agreement_signed'; contract: string; operation: { tool: string; params: unknown } | undefined }
  /**
   * `reasonShown` is false if it joined a request that waits already: the owner reads the reason of that one.
   */
  | {
      type: 'waiting'
      kind: RequestKind | undefined
      family: string
      intervalSeconds: number
      reasonShown?: false
    }
  | { type: 'granted'; grant: Grant; receipt: string }
  | { type: 'retrying'; code: string; afterSeconds: number }
  | { type: 'answered'; resource: string; call: ToolCall }
