/**
 * Owns the acknowledgements that sidecars with leases send to this process, for the acts in this process
 * that wait for them: an act need not wait until Postgres has them, because the sidecar dropped its answers
 * before it sent them. Contract: "What the service does" (revocation is immediate);
 * docs/decisions/0021-leases.md.
 */
import type { ClientId, Owner } from '../../../wire/identifiers.ts'

/** A sidecar, by the resource server that it stands for. */
export interface LeaseHolderId {
  owner: Owner
  client_id: ClientId
  id: string
}

/** A sidecar that was asked to let go, and how often it has been asked by now. */
export interface DropRequest extends Omit<LeaseHolderId, 'owner'> {
  asked: number
}

type AcknowledgementListener = (acknowledged: number) => void
const listeners = new Map<string, Set<AcknowledgementListener>>()

/** The id alone would do, but then another resource server that learnt it could speak for its holder. */
const keyOf = ({ owner, client_id, id }: LeaseHolderId): string => JSON.stringify([owner, client_id, id])

/** The acknowledgements of the sidecars that one act asked. */
export interface Acknowledgements {
  /** Resolves once each of them acknowledged in this process. */
  readonly all: Promise<void>
  readonly isMissing: (id: string) => boolean
  /** Listens no more. */
  readonly end: () => void
}

/**
 * A sidecar says that it dropped what it had when it was asked for the given time; `Infinity`: all, for good.
 * To be called only for an authenticated request of that resource server.
 */
export function acknowledge(holder: LeaseHolderId, acknowledged: number): void {
  for (const listener of listeners.get(keyOf(holder)) ?? []) listener(acknowledged)
}

/** Listens from now on to the sidecars that were asked. What they said before is known by Postgres alone. */
export function acknowledgementsOf(owner: Owner, requests: readonly DropRequest[]): Acknowledgements {
  const { promise: all, resolve } = Promise.withResolvers<void>()
  const missing = new Set(requests.map(({ id }) => id))
  const ends = requests.map(one =>
    listen(keyOf({ ...one, owner }), acknowledged => {
      if (acknowledged >= one.asked) missing.delete(one.id)
      if (missing.size === 0) resolve()
    }),
  )
  return { all, isMissing: id => missing.has(id), end: () => ends.forEach(end => end()) }
}

function listen(key: string, listener: AcknowledgementListener): () => void {
  const those = listeners.get(key) ?? new Set()
  listeners.set(key, those.add(listener))
  return () => {
    those.delete(listener)
    if (those.size === 0) listeners.delete(key)
  }
}
