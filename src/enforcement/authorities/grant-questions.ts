/**
 * Owns which questions about grants go to an authority as one request, and which grants are spent by one.
 * Contract: "Grant (RPT) liveness", "Single-use grant" and "Protection API (resource servers only,
 * PAT-authorized)": a question joins only a request that was not yet sent, so each is answered from what the
 * authority knows after it was asked. Nothing is remembered.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { within, type Deadline } from '../deadline.ts'

export interface GrantQuestionsOptions {
  /** Most tokens that the authority takes in one request, as far as is known now; 1: it takes no several. */
  tokensMax: () => number
  askOne: (token: string, deadline: Deadline) => Promise<unknown>
  /**
   * The answers in the order of the tokens. Undefined if the authority gave none that can be told apart, and
   * asking again does no harm: each is then asked by itself, so that what is wrong with one costs no other
   * its answer. Throws an outage, which is one for all.
   */
  askSeveral: (tokens: string[], deadline: Deadline) => Promise<unknown[] | undefined>
  /** The last question of a request for several ends, and the request has no answer yet. */
  onSilence: () => void
}

interface GrantQuestion {
  token: string
  deadline: Deadline
  whyNot: WhyNot | undefined
  resolve: (answer: unknown) => void
  reject: (error: unknown) => void
}

/** Called right before a request is sent: why this one does not go with it any more, if there is a reason. */
export type WhyNot = () => Error | undefined

/** Answers what the authority said of this token. */
export type GrantQuestions = (token: string, deadline: Deadline, whyNot?: WhyNot) => Promise<unknown>

/**
 * At most this many requests run at once while they are answered soon. Questions that arrive meanwhile share
 * the next request.
 */
const UNDER_WAY_MAX = 4
/** Longest wait for one of them to end: an authority that answers slowly holds up nobody else's question. */
const WAIT_MS = 10
/** The characters of all tokens of one request: half of what our authority takes as a body. */
const CHARACTERS_MAX = 131_072

/**
 * Asks one authority, on behalf of one owner, about a token; answers what it said. Each question ends at its
 * own deadline; the request that it went with continues for the others.
 */
export function createGrantQuestions({
  tokensMax,
  askOne,
  askSeveral,
  onSilence,
}: GrantQuestionsOptions): GrantQuestions {
  let waiting: GrantQuestion[] = []
  let underWay = 0
  let scheduled: NodeJS.Immediate | undefined
  let waitingTooLong: NodeJS.Timeout | undefined
  // A request belongs to the trace of its first question, and not of the request that it waited for.
  let inContext = AsyncLocalStorage.snapshot()

  const sendNext = (most: number): void => {
    const batch = takeTogether(waiting, most)
    waiting = waiting.slice(batch.length)
    const questions = batch.filter(isStillOpen)
    if (questions.length === 0) return
    void inContext(() => (questions.length === 1 ? sendAlone(questions[0]!) : sendTogether(questions)))
  }
  const send = (most = tokensMax()): void => {
    scheduled = undefined
    const hasTurn = (): boolean => most === 1 || underWay < UNDER_WAY_MAX
    while (waiting.length > 0 && hasTurn()) sendNext(most)
    if (waiting.length > 0) waitingTooLong ??= setTimeout(sendAll, WAIT_MS)
    else {
      clearTimeout(waitingTooLong)
      waitingTooLong = undefined
    }
  }
  const sendAll = (): void => {
    waitingTooLong = undefined
    const most = tokensMax()
    while (waiting.length > 0) sendNext(most)
  }
  const schedule = (): void => {
    scheduled ??= setImmediate(send)
  }
  const counted = async (work: () => Promise<void>): Promise<void> => {
    underWay++
    await work()
    underWay--
    if (waiting.length > 0) schedule()
  }
  const sendAlone = ({ token, deadline, resolve, reject }: GrantQuestion): Promise<void> =>
    counted(() => askOne(token, deadline).then(resolve, reject))
  const sendTogether = (questions: GrantQuestion[]): Promise<void> =>
    counted(async () => {
      let isOver = false
      let open = questions.length
      const answers = askSeveral(
        questions.map(({ token }) => token),
        latestOf(questions.map(({ deadline }) => deadline)),
      ).finally(() => (isOver = true))
      // The request ends at the same moment as its last question, and may note the silence after it: the next
      // question, which the caller may ask at once, would go together with others again.
      const onEnd = (): void => {
        open--
        if (open === 0 && !isOver) onSilence()
      }
      await Promise.all(questions.map((one, place) => settle(one, { answers, place, sendAlone, onEnd })))
    })
  return (token, deadline, whyNot) =>
    new Promise((resolve, reject) => {
      if (waiting.length === 0) inContext = AsyncLocalStorage.snapshot()
      waiting.push({ token, deadline, whyNot, resolve, reject })
      schedule()
    })
}

function isStillOpen({ whyNot, reject }: GrantQuestion): boolean {
  const why = whyNot?.()
  if (why === undefined) return true
  reject(why)
  return false
}

/**
 * Gives a question its answer, and waits for it as long as the question has time. If there are no answers, it
 * is asked alone.
 */
async function settle(
  one: GrantQuestion,
  of: {
    answers: Promise<unknown[] | undefined>
    place: number
    sendAlone: (one: GrantQuestion) => Promise<void>
    /** Called before the question gets its answer, or fails. */
    onEnd: () => void
  },
): Promise<void> {
  const sentAt = performance.now()
  try {
    const answers = await within(one.deadline, 'the authority', of.answers)
    of.onEnd()
    if (answers !== undefined) one.resolve(answers[of.place])
    else void of.sendAlone(one)
  } catch (error) {
    of.onEnd()
    one.reject(error)
  } finally {
    one.deadline.waited(performance.now() - sentAt)
  }
}

/** The first of those who wait, as many as one request may be for: one at least. */
function takeTogether(waiting: readonly GrantQuestion[], most: number): GrantQuestion[] {
  let characters = 0
  const bound = waiting.findIndex(({ token }, place) => {
    characters += token.length
    return place > 0 && (place >= most || characters > CHARACTERS_MAX)
  })
  return waiting.slice(0, bound < 0 ? waiting.length : bound)
}

/** A request continues while one of them has time left; what each waited is told to it by itself. */
function latestOf(deadlines: readonly Deadline[]): Deadline {
  return {
    remainingMs: () => Math.max(...deadlines.map(deadline => deadline.remainingMs())),
    waited: () => undefined,
  }
}
