/**
 * The context of every endpoint of a tally: its settings, its keys, its store and a clock. Contract: "Tally
 * for a jointly held resource".
 */
import type { FastifyBaseLogger } from 'fastify'
import type { Pools } from '../storage/tally/database.ts'
import type { Clock } from '../surface/clock.ts'
import type { Issuer } from '../surface/issuer.ts'

/** Lifetimes and caps; each is a setting. Seconds unless the name says otherwise. */
export interface TallyLimits {
  ticketSeconds: number
  awaitingSeconds: number
  negotiationSeconds: number
  pollSeconds: number
  patSeconds: number
  reasonBytesMax: number
}

/** Where state is, and the log of what fails there. */
export interface TallyStore {
  readonly database: Pools
  readonly log: FastifyBaseLogger
}

/** All of it; what needs less takes `TallyStore`, `Issuer` or `Signer`. */
export interface Tally extends Issuer, TallyStore {
  readonly limits: TallyLimits
  readonly clock: Clock
}
