/**
 * Owns how a person names an origin, be it of an operator or of a resource server. Contract: "Owner API"
 * (operators), "Resource server registration". Two spellings of one origin would be two.
 */
import { z } from 'zod'
import { isBareOrigin } from '../../../wire/json-members.ts'
import { refuse } from '../../../wire/refusal.ts'
import type { OwnerApi } from '../api.ts'

const IN_ONE_SPELLING =
  'give a bare https origin in its one spelling, such as https://tools.example: lower case, without path, default port or closing dot'

/** A body that names one. What it names is to be passed through `admittedOrigin`. */
export const NAMED_ORIGIN = z.strictObject({
  origin: z.string().max(300).refine(isBareOrigin, IN_ONE_SPELLING),
})

/** Plain http is allowed for loopback only, and only in development does anything come from there. */
export function admittedOrigin({ devLoopback }: Pick<OwnerApi, 'devLoopback'>, named: string): string {
  if (named.startsWith('http:') && !devLoopback)
    refuse('invalid_request', `Correct the member "origin": ${IN_ONE_SPELLING}.`)
  return named
}
