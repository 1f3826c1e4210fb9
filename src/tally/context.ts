/**
 * The context of every endpoint of a tally: its settings, its keys, its store and a clock. Contract: "Tally
 * for a jointly held resource".
 */
import type { FastifyBaseLogger } from 'fastify'
import type { Database } from '../storage/tally/database.ts'
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

export interface Tally extends Issuer {
  readonly limits: TallyLimits
  readonly database: Database
  readonly log: FastifyBaseLogger
  readonly clock: Clock
}
