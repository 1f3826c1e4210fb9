/**
 * Owns what is done to the processes of a history: one of them at a time is killed, ended in order, or held
 * still, and comes back; or the network of a sidecar is cut or held up, or its clock is moved. Each time is
 * written into the history.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { Setting } from './agents.ts'
import type { Victim } from './processes.ts'
import type { Fault } from './record.ts'

export interface Faults {
  /** Begins one, if none is under way. */
  begin(): void
  /** Settles once all is as it was. */
  over(): Promise<void>
  /** How often each was done. */
  tally: Record<string, number>
}

/** What is done, and how often compared with the others. */
const WEIGHTS = { kill: 5, hold: 4, end: 1 } as const
const HELD_MS = { least: 50, most: 2_500 }

/** `spare`: whom no fault happens to from now on. */
export function createFaults(
  { processes, recorder, chance }: Setting,
  spare: (victim: Victim) => boolean,
): Faults {
  const { authorities, sidecars, postgres, surroundings } = processes
  const tally: Faults['tally'] = {}
  let underWay: Promise<void> | undefined
  let failure: unknown

  async function happen(victim: Victim, what: keyof typeof WEIGHTS): Promise<void> {
    const name = `${what} ${victim.name}`
    tally[name] = (tally[name] ?? 0) + 1
    const op = recorder.begin({ op: 'fault', owner: '', what: name, via: victim.name }) as Fault
    if (what === 'hold') {
      victim.hold()
      await delay(HELD_MS.least + chance.below(HELD_MS.most - HELD_MS.least))
      victim.release()
    } else {
      await (what === 'kill' ? victim.kill() : victim.end())
      await victim.start()
    }
    recorder.end(op, { outcome: 'done' })
  }

  return {
    tally,
    begin: () => {
      if (underWay !== undefined || failure !== undefined) return
      const victims = [...authorities, ...sidecars, postgres, ...surroundings].filter(
        victim => !spare(victim),
      )
      underWay = happen(chance.of(victims), chance.weighed(WEIGHTS))
        .catch((error: unknown) => {
          failure = error
        })
        .finally(() => {
          underWay = undefined
        })
    },
    over: async () => {
      await underWay
      if (failure !== undefined) throw failure
    },
  }
}
