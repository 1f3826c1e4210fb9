/**
 * Owns the types of a client's call and of what it is made with. Contract: "What the service does", beats 1
 * to 4.
 */
import type { JsonObject } from '../../wire/json.ts'
import type { Directory } from '../negotiation/metadata.ts'
import type { Profile } from '../profile.ts'
import type { ToolCall } from '../transports/mcp.ts'
import type { BridgeState, ResourceOwner } from './negotiation/state.ts'
import type { AcceptedBeforehand } from './negotiation/terms.ts'
import type { ProgressListeners } from './notices/logs.ts'
import type { Ask } from './questions/questions.ts'
import type { Upstream } from './upstream/upstream.ts'

export interface CallParts {
  state: BridgeState
  directory: Directory
  beforehand: AcceptedBeforehand
  lingerSeconds: number
  now: () => number
  profileOf(owner: ResourceOwner): Promise<Profile>
  /** Signs nothing: for calls without a grant. */
  bare: Profile
  upstreamOf(resource: string): Upstream
  /** Hash of the tool as it is listed now, and as the client was shown it; undefined if it is not listed. */
  definitionOf(resource: string, tool: string): string | undefined
  /** Reads the resource's list of tools, if that was not read yet. */
  listed(resource: string): Promise<unknown>
  /** Called if the mark of a tool changed. */
  onKnown(): void
  /** Called if a grant for tools of the resource was received. */
  onGranted(resource: string): void
}

export interface ClientCall extends ProgressListeners {
  resource: string
  call: ToolCall
  /** Hash of the tool as it is when the call comes, and as the client was shown it. */
  definition?: string | undefined
  signal: AbortSignal
  /** What the client says about the sending alone; neither approved nor kept. */
  meta?: JsonObject | undefined
  /** Puts the question of the tool's server to the person at the client; left out if she cannot be asked. */
  ask?: Ask | undefined
}
