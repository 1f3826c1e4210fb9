/**
 * Owns the list of what is measured, in the order in which a cycle of rounds measures it.
 */
import type { Scenario } from '../world.ts'
import { bareNegotiation } from './bare-negotiation.ts'
import { negotiation } from './negotiation.ts'
import { noop } from './noop.ts'
import { singleUse } from './single-use.ts'
import {
  standing,
  standingAt1000,
  standingAt500,
  standingAtHalf,
  standingKept,
  standingLeased,
  standingTwoSidecars,
} from './standing.ts'
import { verify, verifyAt500 } from './verify.ts'

export const SCENARIOS: readonly Scenario[] = [
  noop,
  verify,
  standing,
  standingTwoSidecars,
  standingKept,
  standingLeased,
  singleUse,
  negotiation,
  bareNegotiation,
  verifyAt500,
  standingAt500,
  standingAtHalf,
  standingAt1000,
]

/** The scenario of this name. Throws for one that there is not. */
export function scenarioNamed(name: string): Scenario {
  const found = SCENARIOS.find(scenario => scenario.name === name)
  if (found === undefined)
    throw new Error(`No scenario ${name}; there are ${SCENARIOS.map(one => one.name).join(', ')}.`)
  return found
}
