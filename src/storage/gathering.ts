/**
 * Look-ups that come at the same time go to Postgres together. Contract: "Grant (RPT) liveness": nothing is remembered, and no look-up
 * joins a statement that was sent before it was asked for, so each sees whatever was committed before.
 */

export interface GatheringOptions {
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
  { together, atOnce }: GatheringOptions,
): (key: Key) => Promise<Answer> {
  const waiting: Asked<Key, Answer>[] = []
  let underWay = 0
  let scheduled: NodeJS.Immediate | undefined

  const send = (): void => {
    scheduled = undefined
    for (let free = atOnce - underWay; free > 0 && waiting.length > 0; free--)
      void sendTogether(waiting.splice(0, together))
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
