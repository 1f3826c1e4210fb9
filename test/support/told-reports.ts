/** Owns how tests read the access reports that an authority was sent: one by itself, or several together. */
import type { AccessEntry } from '../../src/enforcement/reports/outbox.ts'
import type { Received } from './scripted-authority.ts'

/** A request to `/audit/access`: reports, or how far a run has come. */
export type Sent = Partial<AccessEntry> & { entries?: AccessEntry[]; ended?: boolean }

/** The requests to `/audit/access`, in order. */
export function sentTo(received: readonly Received[]): Sent[] {
  return received.filter(({ path }) => path === '/audit/access').map(({ body }) => JSON.parse(body) as Sent)
}

/** The reports in one request; none in one that tells of a run. */
export function reportsIn(sent: Sent): AccessEntry[] {
  if (sent.entries !== undefined) return sent.entries
  return sent.tool === undefined ? [] : [sent as AccessEntry]
}

/** All reports that were sent, in order, one that was sent again among them as often. */
export function toldReports(received: readonly Received[]): AccessEntry[] {
  return sentTo(received).flatMap(reportsIn)
}
