/**
 * Collects verdicts in the background, so that polls never wait for a holder. Every holder is asked how she
 * would answer, and only when those who would allow reach the threshold, they are asked for signatures.
 * Contract: "Tally for a jointly held resource". The stored state is enough to continue from at the next
 * poll, wherever a process ended.
 */
import { LATE, waitAtMost } from '../../limits/patience.ts'
import { countVerdicts, type CountedMandate } from '../../rules/joint/mandate.ts'
import {
  advance,
  denyWaiting,
  letRest,
  readAnswers,
  type QuestionResult,
  type AnswerRow,
  type HolderQuestion,
} from '../../storage/tally/answers.ts'
import { readAccount } from '../../storage/tally/accounts.ts'
import type { NegotiationRow } from '../../storage/tally/negotiations.ts'
import { mandateDigest } from '../../wire/joint/mandate.ts'
import { aliasIn, AUTHORITY_PATH, TALLY_ALIAS } from '../../wire/names.ts'
import { verdictSigner, verifyVerdict } from '../../wire/joint/verdict.ts'
import type { HolderProofContext } from '../holders/proof.ts'
import { HOLDER_TIMEOUT_MS, type HolderClient, type VerdictQuestion } from '../holders/client.ts'

export interface Collector {
  /** Continues a waiting negotiation in the background, if it is not running here already. */
  goOn(negotiation: NegotiationRow): void
  /** Tells holders who were not heard that nothing more will be asked. */
  close(negotiation: NegotiationRow): void
  /** Starts nothing more, and waits for running work. */
  stop(): Promise<void>
}

export interface Collecting extends HolderProofContext {
  holders: HolderClient
}

/** Nothing is under way yet. */
export function createCollector(of: Collecting): Collector {
  const running = new Map<string, Promise<void>>()
  let stopped = false
  const begin = (name: string, work: () => Promise<void>): void => {
    if (stopped || running.has(name)) return
    const done = work()
      .catch((error: unknown) => of.log.warn({ err: error }, 'collecting verdicts was interrupted'))
      .finally(() => running.delete(name))
    running.set(name, done)
  }
  return {
    goOn: negotiation => begin(negotiation.family, () => collect(of, negotiation)),
    close: negotiation => begin(`close ${negotiation.family}`, () => tellClosed(of, negotiation)),
    stop: async () => {
      stopped = true
      await Promise.all(running.values())
    },
  }
}

async function collect(of: Collecting, negotiation: NegotiationRow): Promise<void> {
  const db = of.database.of(negotiation.account)
  const account = await readAccount(db, negotiation.account)
  // Under another mandate, other holders are asked, or other weights count.
  if (account === undefined || account.version !== negotiation.version) {
    await denyWaiting(db, negotiation)
    return tellClosed(of, negotiation)
  }
  const mandate = { ...account.mandate, mandate_s256: mandateDigest(account.mandate) }
  await goOn(of, negotiation, { mandate })
}

/** Stores the answers, asks the next holders, and so on, until nobody is left to ask. */
async function goOn(
  of: Collecting,
  negotiation: NegotiationRow,
  { mandate, answered }: { mandate: CountedMandate; answered?: QuestionResult },
): Promise<void> {
  const { threshold } = mandate.rule
  const db = of.database.of(negotiation.account)
  const next = await advance(db, negotiation, { threshold, answered })
  if (next === undefined) {
    // She may have been told that it is over before this question of ours reached her.
    if (answered !== undefined && isOpen(answered)) await tellClosedTo(of, negotiation, [answered])
    return
  }
  if (next.step === 'approved' || next.step === 'denied') return tellClosed(of, negotiation)
  await Promise.all(
    next.questions.map(async question => {
      const reply = await ask(of, negotiation, { mandate, question })
      if (reply === undefined) await letRest(db, negotiation, question)
      else await goOn(of, negotiation, { mandate, answered: reply })
    }),
  )
}

function questionOf(
  { account, family, held }: NegotiationRow,
  { holder, issuer }: Pick<AnswerRow, 'holder' | 'issuer'>,
): VerdictQuestion {
  const { content } = held!
  return {
    owner: holder,
    issuer,
    account,
    resource_id: content.resource_id,
    negotiation: family,
    contract: content.agreement,
    agreement: content.agreement_jws,
  }
}

/** One holder's answer; undefined if no usable one came, so that she is asked again. */
async function ask(
  of: Collecting,
  negotiation: NegotiationRow,
  context: { mandate: CountedMandate; question: HolderQuestion },
): Promise<QuestionResult | undefined> {
  const { question } = context
  const { holder, issuer, final } = question
  const deadline = performance.now() + HOLDER_TIMEOUT_MS
  const reply = await of.holders.ask({ ...questionOf(negotiation, question), final })
  if ('silent' in reply) {
    of.log.info({ issuer, why: reply.silent }, 'a holder could not be asked; she is asked again')
    return undefined
  }
  if ('refused' in reply) return { holder, issuer, state: 'refused' }
  // A holder who would have allowed, and is still being asked to sign, counts as undecided, as before.
  if ('pending' in reply) return { holder, issuer, state: reply.ready && !final ? 'ready' : 'pending' }
  if ('verdict' in reply) return judged(of, negotiation, { ...context, compact: reply.verdict, deadline })
  return undefined
}

/** A verdict as it counts; undefined if it does not count, which is logged and treated as no answer. */
async function judged(
  of: Collecting,
  negotiation: NegotiationRow,
  submission: { mandate: CountedMandate; question: AnswerRow; compact: string; deadline: number },
): Promise<QuestionResult | undefined> {
  const { mandate, question, compact, deadline } = submission
  const { holder, issuer } = question
  const { content, named } = negotiation.held!
  try {
    // Her keys are kept once they come, so they are there when she is asked again.
    const left = deadline - performance.now()
    const verdict = await waitAtMost(left, verified(of, { compact, issuer }))
    if (verdict === LATE) throw new Error('the keys of her server took too long')
    if (verdict.holder !== holder) throw new Error('it is of another holder')
    const [fault] = countVerdicts(
      mandate,
      [verdict],
      {
        negotiation: negotiation.family,
        contract: content.agreement,
        resource_id: content.resource_id,
        scopes: content.scopes,
        // The grant lives no longer than the verdicts that it rests on.
        exp: of.now() + 1,
        cnf_jkt: content.jkt,
        operation: named ?? undefined,
        single_use: named !== null,
      },
      of.now(),
    ).faults
    // A holder signs one verdict only: under this mandate there will be none.
    if (fault === 'other_mandate') return { holder, issuer, state: 'refused', verdict: compact }
    if (fault !== undefined) throw new Error(`it does not count: ${fault}`)
    if (verdict.effect === 'deny') return { holder, issuer, state: 'refused', verdict: compact }
    const { iat, exp, expires_in } = verdict
    if (exp <= of.now()) throw new Error('it is not to be collected any more')
    const facts = { verdict: compact, verdict_exp: exp, allowed_until: iat + expires_in }
    return { holder, issuer, state: 'allowed', ...facts }
  } catch (error) {
    of.log.warn({ err: error, issuer }, 'a verdict was not taken; its holder is asked again')
    return undefined
  }
}

async function verified(
  { holderKeys, issuer: audience, aliases }: Collecting,
  { issuer, compact }: { compact: string; issuer: string },
) {
  const url = issuer + AUTHORITY_PATH.jwks
  const typAlias = aliasIn(aliases, TALLY_ALIAS.verdictTyp)
  const { kid } = verdictSigner(compact, typAlias)
  const named = kid === undefined ? undefined : await holderKeys.find(url, kid)
  const published = named === undefined ? await holderKeys.keys(url) : [named]
  return verifyVerdict(compact, published, { issuer, audience, typAlias })
}

const isOpen = ({ state }: Pick<AnswerRow, 'state'>): boolean => state === 'pending' || state === 'ready'

async function tellClosed(of: Collecting, negotiation: NegotiationRow): Promise<void> {
  if (negotiation.held === null) return
  const answers = await readAnswers(of.database.of(negotiation.account), negotiation)
  await tellClosedTo(of, negotiation, answers.filter(isOpen))
}

async function tellClosedTo(
  of: Collecting,
  negotiation: NegotiationRow,
  open: readonly Pick<AnswerRow, 'holder' | 'issuer'>[],
): Promise<void> {
  await Promise.all(open.map(one => of.holders.ask({ ...questionOf(negotiation, one), closed: true })))
}
