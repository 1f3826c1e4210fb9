/**
 * Owns how many documents are fetched at once, and for whom first: addresses come from strangers, and a
 * stranger that names many or slow ones must not block those that are already known. Contract: "Operator
 * documents" and "Limits".
 */

/** The places of the gate. Waiting fetches are served in order, the favoured ones first. */
export interface FetchGateOptions {
  /** How many fetches run at once. */
  placesMax: number
  /** How many of these are reserved for favoured fetches. */
  favouredPlaces: number
  /** How many fetches run at once from one origin; twice as many for favoured ones. */
  perOriginMax: number
  /** How many fetches may wait for a place; twice as many for favoured ones. */
  waitingMax: number
}

export interface FetchGate {
  /**
   * Waits for a place, at most `waitMs`. @returns the function that gives the place back, to be called once;
   * undefined if none became free in time or too many wait already.
   */
  enter(origin: string, options: { favoured: boolean; waitMs: number }): Promise<(() => void) | undefined>
}

interface GateWaiter {
  origin: string
  favoured: boolean
  admit: () => void
}

/** A gate with as many places as the options say. */
export function createFetchGate(options: FetchGateOptions): FetchGate {
  const underWay = new Map<string, number>()
  const waiting: GateWaiter[] = []
  let inUse = 0

  const fits = ({ origin, favoured }: GateWaiter): boolean => {
    const ofOrigin = underWay.get(origin) ?? 0
    return favoured
      ? inUse < options.placesMax && ofOrigin < 2 * options.perOriginMax
      : inUse < options.placesMax - options.favouredPlaces && ofOrigin < options.perOriginMax
  }
  const take = (origin: string): (() => void) => {
    inUse += 1
    underWay.set(origin, (underWay.get(origin) ?? 0) + 1)
    return () => {
      inUse -= 1
      const left = underWay.get(origin)! - 1
      if (left === 0) underWay.delete(origin)
      else underWay.set(origin, left)
      next()
    }
  }
  const next = (): void => {
    const first = waiting.find(waiter => waiter.favoured && fits(waiter)) ?? waiting.find(fits)
    if (first === undefined) return
    waiting.splice(waiting.indexOf(first), 1)
    first.admit()
  }
  return {
    enter: (origin, { favoured, waitMs }) =>
      new Promise(resolve => {
        const waiter: GateWaiter = {
          origin,
          favoured,
          admit: () => {
            clearTimeout(timer)
            resolve(take(origin))
          },
        }
        let timer: NodeJS.Timeout | undefined
        if (fits(waiter)) return waiter.admit()
        const waitingMax = favoured ? 2 * options.waitingMax : options.waitingMax
        if (waiting.length >= waitingMax || waitMs <= 0) return resolve(undefined)
        waiting.push(waiter)
        timer = setTimeout(() => {
          waiting.splice(waiting.indexOf(waiter), 1)
          resolve(undefined)
        }, waitMs)
      }),
  }
}
