/**
 * Polls of a request that waits for a decision. Each poll rotates the ticket. An early poll is held until the
 * interval has passed or the request is decided. An approval is collected once. Contract: "Permission ticket"
 * (awaiting-owner).
 */
import { requestSubmitted } from '../../wire/negotiation/negotiation.ts'
import { denied, invalidGrant, type TokenReply } from './answers.ts'
import { pauseOf, type Negotiation, type TicketGrant } from './negotiation.ts'

type Polled<Row extends Negotiation, Governed> = Pick<
  TicketGrant<Row, Governed>,
  'negotiations' | 'decisions' | 'pollSeconds' | 'pollPlaces'
>

/** Answers a poll. `next` is the rotated ticket, already valid. */
export async function collectOrWait<Row extends Negotiation, Governed>(
  of: Polled<Row, Governed>,
  family: Row,
  next: string,
): Promise<TokenReply> {
  const waiting = { status: 403, body: requestSubmitted(family.kind!, next, pauseOf(of)) }

  // 1. The decision, if there is one by the end of the pause.
  const decided = family.decision === null ? await decisionAfterInterval(of, family) : family
  if (decided.decision === null) return waiting

  // 2. A denial ends it.
  if (decided.decision === 'denied') {
    const { sentence, reason, ownerReason } = await of.decisions.deny(decided)
    return denied(sentence, { reason, ownerReason })
  }

  // 3. An approval is collected. If the terms changed before that, the next poll is answered with the new
  //    ones.
  const collected = await of.decisions.collect(decided)
  switch (collected.kind) {
    case 'granted':
      return { status: 200, body: collected.body }
    case 'refused':
      return denied(collected.sentence, collected)
    case 'terms-changed':
      return waiting
    case 'gone':
      return invalidGrant()
  }
}

async function decisionAfterInterval<Row extends Negotiation, Governed>(
  { negotiations, decisions, pollSeconds, pollPlaces }: Polled<Row, Governed>,
  family: Row,
): Promise<Row> {
  const { owner } = family
  const since =
    Date.parse(family.ticket_issued_at) - Date.parse(family.ticket_previous_at ?? family.ticket_issued_at)
  const deadline = performance.now() + pollSeconds * 1_000 - since
  const wait = async (): Promise<Row> => {
    let latest = family
    for (;;) {
      const left = deadline - performance.now()
      if (left <= 0 || latest.decision !== null || !negotiations.waits(latest)) return latest
      await decisions.happened(owner, left)
      latest = (await negotiations.read(owner, family.family)) ?? family
    }
  }
  return pollPlaces.hold(wait, family)
}
