/**
 * The context of a witness's request: its name and keys, the authorities whose logs it takes, and its store.
 * docs/details/witness.md. Contract: "Events" (row 5).
 */
import type { FastifyBaseLogger } from 'fastify'
import type { RateShares } from '../limits/rate-shares.ts'
import type { WitnessedIssuer } from '../rules/ledger/witness.ts'
import type { Pools } from '../storage/witness/database.ts'
import type { PrivateKey } from '../wire/signatures/keys.ts'

/** An authority, the keys of its logs, and how many of them are taken at most. */
export interface BoundedIssuer extends WitnessedIssuer {
  originsMax: number
}

export interface Witness {
  /** The public address, for the description of the listener. */
  issuer: string
  /** The name of its keys in cosignatures. */
  name: string
  /** All of them cosign. */
  keys: readonly PrivateKey[]
  issuers: readonly BoundedIssuer[]
  database: Pools
  /** How often one source may ask. */
  shares: RateShares
  log: FastifyBaseLogger
  /** Counts one more head that contradicts what was cosigned. */
  countContradiction: () => void
}
