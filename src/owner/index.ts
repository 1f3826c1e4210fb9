/**
 * The owner's client: what a portal, a phone or a script of hers needs to speak the owner API. Contract:
 * "Owner API".
 */
export { readAll } from '../client/exchange.ts'
export { createOwnerClient, type LedgerQuery, type OwnerClient } from './client.ts'
export { serveConsole } from './console.ts'
export { watchEvents, type OwnerEvent, type WatchOptions } from './events.ts'
export type {
  Connection,
  DecisionRecord as Decided,
  LedgerEntry,
  PendingItem,
  Resource,
  Revoked,
  Tier,
} from '../wire/owner/owner-api.ts'
export type { DeviceKey, Login } from '../wire/owner/owner-credentials.ts'
export type { ApiAccess as OwnerAccess, ApiRequest as OwnerRequest } from '../client/signed-fetch.ts'
export { happenedAt, ledgerSentence, reportedText } from '../rules/words/ledger-sentences.ts'
export { shortName } from '../client/names.ts'
