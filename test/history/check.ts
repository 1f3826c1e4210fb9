/**
 * Owns the judgement of a history: a pure function from operations to the faults that they show. It is sound,
 * not complete: if the times leave open which came first, it assumes the order that is right. It may be asked
 * in the middle of a history; `final` says that every ledger was read to its end, and every report of a call
 * has come.
 */
import { allowanceRules } from './check-allowances.ts'
import { ledgerRules } from './check-ledger.ts'
import { justifiedRules } from './check-words.ts'
import { indexOf, type Indexed } from './indexed.ts'
import { done, end, may, type Cast, type End, type Op, type Violation } from './record.ts'

/** All that is wrong with a history, by the rules in their order. */
export function violationsOf(history: readonly Op[], cast: Cast, { final = false } = {}): Violation[] {
  const indexed = indexOf(history, cast)
  const rules = [spentOnce, ticketOnce, endedStaysEnded, decidedOnce, termsInForce, requestOnce, joined]
  return [
    ...rules.flatMap(rule => rule(indexed)),
    ...allowanceRules(indexed),
    ...justifiedRules(indexed),
    ...ledgerRules(indexed, final),
  ]
}

/** contract, "Single-use grant": spendable exactly once; no call passes on what it was not granted. */
function spentOnce({ grants, callsOf }: Indexed): Violation[] {
  return [...callsOf.entries()].flatMap(([jti, calls]) => {
    const passed = calls.filter(done)
    const other = passed.filter(({ exact }) => !exact)
    const single = grants.get(jti)?.grant.single === true
    return [
      ...(single && passed.length > 1
        ? [wrong('single-use', `${jti} passed ${passed.length} times`, passed)]
        : []),
      ...(other.length > 0 ? [wrong('single-use', `${jti} passed for what it is not for`, other)] : []),
    ]
  })
}

/** contract, "Permission ticket": one presentation each, and a fresh one with each answer. */
function ticketOnce({ presentsOf }: Indexed): Violation[] {
  return [...presentsOf.entries()].flatMap(([ticket, presents]) => {
    const taken = presents.filter(({ answer, code }) => answer !== undefined || code === 'request_denied')
    return taken.length > 1
      ? [wrong('ticket-once', `${short(ticket)} was taken ${taken.length} times`, taken)]
      : []
  })
}

/**
 * contract, "Connection": once a revoke or a block was answered nothing passes on what was granted before,
 * and nothing is granted until the owner has let the agent in again.
 */
function endedStaysEnded({ grants, callsOf, endsOf, unblocks, admissions }: Indexed): Violation[] {
  return [...grants.values()].flatMap(({ grant, by }) => {
    const ends = (endsOf.get(grant.handle) ?? []).filter(done)
    const admitted = admissions.get(grant.handle) ?? []
    const isOver = (one: End): boolean =>
      by.until < one.at || !admitted.some(yes => end(yes) > one.at && yes.at < by.until)
    const [over] = ends.filter(isOver).toSorted((a, b) => a.until - b.until)
    const found: Violation[] = []
    if (over !== undefined) {
      const late = (callsOf.get(grant.jti) ?? []).find(call => done(call) && call.at > over.until)
      if (late !== undefined)
        found.push(
          wrong('ended', `a call passed on ${grant.jti} after the ${over.op} was answered`, [by, over, late]),
        )
      if (by.at > over.until)
        found.push(
          wrong('ended', `${grant.jti} was given after the ${over.op}, and nobody let it in`, [over, by]),
        )
    }
    const freed = (block: End): boolean =>
      unblocks.some(
        free =>
          free.owner === block.owner &&
          free.whom === block.whom &&
          free.at < by.until &&
          end(free) > block.at,
      )
    const block = ends.find(one => one.op === 'block' && one.until < by.at && !freed(one))
    if (block !== undefined)
      found.push(wrong('ended', `${grant.jti} was given to a blocked operator`, [block, by]))
    return found
  })
}

/**
 * contract, "Permission ticket" (awaiting-owner): one decision and one grant for each family; if its terms
 * were edited, it is offered the new ones, and asks again.
 */
function decidedOnce({ families, editsOf, endsOf }: Indexed): Violation[] {
  const editsBy = (owner: string) =>
    [...editsOf].flatMap(([key, edits]) => (key.startsWith(`${owner} `) ? edits : []))
  return [...families.entries()].flatMap(([family, { decides, presents }]) => {
    const decided = decides.filter(done)
    const granted = presents.filter(({ answer }) => answer === 'granted')
    /** Whether its terms may have been edited between the two, so that it was offered the new ones. */
    const isRenewed = (from: Op, to: Op): boolean =>
      presents.some(one => one.answer === 'need_info' && one.until > from.at && one.at < to.until) ||
      editsBy(from.owner).some(one => end(one) > from.at && one.at < to.until)
    const found: Violation[] = []
    const tell = (says: string, ops: readonly Op[]): void =>
      void found.push(wrong('decided-once', `${family}: ${says}`, ops))
    decided.forEach((one, at) => {
      const before = decided.slice(0, at).find(other => !isRenewed(other, one) && !isRenewed(one, other))
      if (before !== undefined) tell('decided twice', [before, one])
      const still = presents.find(
        next => next.answer === 'submitted' && next.at > one.until && !isRenewed(one, next),
      )
      if (still !== undefined) tell('said to wait after it was decided', [one, still])
    })
    if (granted.length > 1) tell(`granted ${granted.length} times`, granted)
    for (const grant of granted) {
      const denied = decided.find(one => one.decision === 'denied' && !isRenewed(one, grant))
      if (denied !== undefined) tell('granted though it was denied', [denied, grant])
      // If it was offered other terms since, another decision let it in, or it had to ask nobody.
      const asked = presents.some(one => one.answer === 'submitted' && !isRenewed(one, grant))
      if (!asked) continue
      const yes = decides.filter(one => may(one) && one.decision === 'approved' && one.at < grant.until)
      if (yes.length === 0) tell('granted though nobody approved it', [grant])
      const over = (endsOf.get(grant.handle) ?? []).find(
        one => isEnd(one) && one.until < grant.at && yes.every(approval => end(approval) < one.at),
      )
      if (yes.length > 0 && over !== undefined)
        tell(`granted on an approval from before a ${over.op}`, [...yes, over, grant])
    }
    return found
  })
}

/**
 * contract, "Terms template": what is granted after an edit was answered is granted under the new terms, and
 * no grant outlives what its agent agreed to.
 */
function termsInForce({ grants, editsOf }: Indexed): Violation[] {
  return [...grants.values()].flatMap(({ grant, by }) => {
    const edits = editsOf.get(`${by.owner} ${grant.tier}`) ?? []
    const newer = edits.find(one => done(one) && one.until < by.at && one.version! > grant.version)
    const over = grant.exp - grant.iat > grant.agreed
    return [
      ...(newer === undefined
        ? []
        : [
            wrong('terms', `${grant.jti} was given under version ${grant.version} after ${newer.version}`, [
              newer,
              by,
            ]),
          ]),
      ...(over ? [wrong('terms', `${grant.jti} lives longer than its agent agreed to`, [by])] : []),
    ]
  })
}

/**
 * contract, "Authentication": a signed owner request that changes anything is accepted once; sent again after
 * that it is refused for its signature, whatever it asks for.
 */
function requestOnce({ requests }: Indexed): Violation[] {
  return [...requests.values()].flatMap(ops => {
    const taken = ops.filter(done)
    const [first] = taken
    const judged = ops.find(
      one =>
        first !== undefined &&
        one.at > first.until &&
        one.outcome === 'refused' &&
        one.code !== 'invalid_credential',
    )
    return [
      ...(taken.length > 1 ? [wrong('request-once', 'a signed request was accepted twice', taken)] : []),
      ...(judged !== undefined
        ? [wrong('request-once', `a signed request was looked at again: ${judged.code}`, [first!, judged])]
        : []),
    ]
  })
}

/** decisions on the queue: one item for each agent, resource and operation; a repeat joins it. */
function joined({ history }: Indexed): Violation[] {
  return history.flatMap(op => {
    if (op.op !== 'waiting') return []
    const twice = op.items.find((item, at) => op.items.indexOf(item) !== at)
    return twice === undefined ? [] : [wrong('joined', `two items wait for the same: ${twice}`, [op])]
  })
}

/** Whether it surely ended something: a revoke that found nothing leaves what waits. */
const isEnd = (one: End): boolean => done(one) && (one.op === 'block' || one.ended! > 0)

const short = (ticket: string): string => `${ticket.slice(0, 20)}…${ticket.slice(-6)}`

function wrong(rule: string, says: string, ops: readonly Op[]): Violation {
  return { rule, says, ops: ops.map(({ n }) => n) }
}
