/**
 * Look-ups that come at the same time go to Postgres together. Contract: "Grant (RPT) liveness": nothing is remembered, and no look-up
 * joins a statement that was sent before it was asked for, so each sees whatever was committed before.
 */

export interface GatheringOptions<Key> {
  /** Look-ups of one group alone share a statement: the owner, since no statement crosses owners. */
  group: (key: Key) => string
  /** Most look-ups in one statement. */
  together: number
  /** Most statements at once; what comes meanwhile waits for one to end and goes with the next. */
  atOnce: number
}

interface Asked<Key, Answer> {
  key: Key
  resolve: (answer: Answer) => void
  reject: (error: unknown) => void
}

/**
 * A look-up of one, made of a look-up of many that answers in the order of its keys. Where that fails, it fails for all who were
 * in it, and for nobody else.
 */
export function gathering<Key, Answer>(
  lookUp: (keys: Key[]) => Promise<Answer[]>,
  { group, together, atOnce }: GatheringOptions<Key>,
): (key: Key) => Promise<Answer> {
  let waiting: Asked<Key, Answer>[] = []
  let underWay = 0
  let scheduled: NodeJS.Immediate | undefined

  const send = (): void => {
    scheduled = undefined
    for (let free = atOnce - underWay; free > 0 && waiting.length > 0; free--)
      void sendTogether(takeOldestGroup())
  }
  /** Whoever waits longest, and those of the same group behind it, up to the bound; the rest keep their order. */
  const takeOldestGroup = (): Asked<Key, Answer>[] => {
    const first = group(waiting[0]!.key)
    const taken: Asked<Key, Answer>[] = []
    const left: Asked<Key, Answer>[] = []
    for (const asked of waiting) {
      const joins = taken.length < together && group(asked.key) === first
      ;(joins ? taken : left).push(asked)
    }
    waiting = left
    return taken
  }
  const schedule = (): void => {
    if (underWay < atOnce) scheduled ??= setImmediate(send)
  }
  const sendTogether = async (asked: Asked<Key, Answer>[]): Promise<void> => {
    underWay++
    try {
      const answers = await lookUp(asked.map(({ key }) => key))
      asked.forEach(({ resolve }, place) => resolve(answers[place]!))
    } catch (error) {
      for (const { reject } of asked) reject(error)
    } finally {
      underWay--
      if (waiting.length > 0) schedule()
    }
  }
  return key =>
    new Promise((resolve, reject) => {
      waiting.push({ key, resolve, reject })
      schedule()
    })
}
