/** Owns how operations become a history: written down before they are sent, completed by their answers. */
import type { Op } from './record.ts'

type Without<T> = T extends Op ? Omit<T, 'n' | 'at' | 'until' | 'outcome'> : never
/** What is known of an operation before it is sent. */
export type Begun = Without<Op>
/** What its answer tells of it. */
export type Told<T extends Op = Op> = Pick<T, 'outcome'> & Partial<T>

export interface Recorder {
  history: Op[]
  /** How many operations reached a process, including those that no rule checks. */
  count: number
  now(): number
  /** Writes an operation down, with no answer so far. */
  begin(op: Begun): Op
  /** Completes it. */
  end(op: Op, told: Told): void
}

/** Begins with an empty history. */
export function createRecorder(): Recorder {
  const history: Op[] = []
  const now = (): number => performance.timeOrigin + performance.now()
  const recorder: Recorder = {
    history,
    count: 0,
    now,
    begin: begun => {
      recorder.count++
      const op = { ...begun, n: history.length, at: now(), until: Infinity, outcome: 'unknown' } as Op
      history.push(op)
      return op
    },
    end: (op, told) => {
      if (told.outcome === 'away') recorder.count--
      Object.assign(op, { until: now() }, told)
    },
  }
  return recorder
}
