/**
 * Owns the types of what a negotiation of the bridge is led with: what it calls, and what it is about.
 * Contract: "Permission ticket".
 */
import type { Json } from '../../../wire/json.ts'
import type { TermsTemplate } from '../../../wire/negotiation/terms.ts'
import type { CallAnswer } from '../../answer.ts'
import type { Directory } from '../../negotiation/metadata.ts'
import type { Profile } from '../../profile.ts'
import type { Grant } from '../../store.ts'
import type { ToolCall } from '../../transports/mcp.ts'
import type { ProgressListeners } from '../notices/logs.ts'
import type { Ask } from '../questions/questions.ts'
import type { FamilyRecord } from './family.ts'
import type { Stages } from './stage.ts'
import type { BridgeState, ResourceOwner } from './state.ts'
import type { StoredFamily } from './stored-family.ts'
import type { TermsOffer } from './terms.ts'

/** What running a negotiation needs. */
export interface NegotiationParts {
  state: BridgeState
  directory: Directory
  now: () => number
  /** Resolves once this process checks no more what an earlier one left of the request of that id. */
  sweepEnd(id: string): Promise<void>
  profileOf(owner: ResourceOwner): Promise<Profile>
  /** A challenge to the record's call, or its answer if no grant is needed any more. */
  challenge(record: FamilyRecord, signal: AbortSignal): Promise<CallAnswer>
  /** The terms as a person is asked about them; undefined if she agreed already. */
  offer(template: TermsTemplate, record: FamilyRecord): Promise<TermsOffer | undefined>
  /** A person agreed to this offer, with the tool as it was when she was asked. */
  onAgreed(offer: TermsOffer, record: FamilyRecord): Promise<void>
  /** Sends the call under a grant for this one use. */
  sendOnce(
    record: FamilyRecord,
    access: { grant: Grant; profile: Profile },
    listeners: CallListeners,
  ): Promise<Json>
}

/** Messages about a call that come before its answer. */
export interface CallListeners extends ProgressListeners {
  ask: Ask
}

/** What it is about, and its surroundings. */
export interface NegotiationAbout {
  storedFamily: StoredFamily
  at: Stages
  /** Somebody waits for it. */
  isAwaited: () => boolean
  /** Somebody would hear a decision now: a caller that waits, or the client of a task that asks for it. */
  hasWaiter: () => boolean
  /** A call that somebody waits for. */
  awaitedCall: () => ToolCall | undefined
  /** Called if the request turns out to be for one operation, and so has another id. */
  onOperation: () => Promise<string>
  listeners: ProgressListeners
}
