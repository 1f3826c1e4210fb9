/**
 * Identity assertions that open negotiations: an assertion is spent, and what it binds is stored, in the
 * statement that issues the next ticket. Contract: "Permission ticket" (identity before terms).
 */
import { sql } from 'kysely'
import type { AcceptedIdentity } from '../../../rules/identity-assertion.ts'
import type { Family, Owner } from '../../../wire/identifiers.ts'
import type { TermsTemplate } from '../../../wire/negotiation/terms.ts'
import type { Db } from '../database.ts'

export interface NewIdentity {
  owner: Owner
  family: Family
  identity: AcceptedIdentity
  /** The key under which the assertion is remembered, and for how long. */
  digest: Buffer
  retentionSeconds: number
  /** The terms that it opens, and the ticket with which the agent agrees. */
  offer: { tier_id: string; template: TermsTemplate }
  ticketHash: Buffer
  ticketSeconds: number
}

/**
 * Spends an assertion for a negotiation whose ticket was just spent. 'spent' if it opened a negotiation
 * before, at any replica and of any owner; 'gone' if the negotiation has ended meanwhile.
 */
export async function acceptIdentity(
  db: Db,
  submission: NewIdentity,
): Promise<'accepted' | 'spent' | 'gone'> {
  const { owner, family, offer } = submission
  const statement = sql<{ fresh: boolean; moved: boolean }>`
    WITH fresh AS (
      INSERT INTO spent_assertions (digest, owner, expires_at)
      VALUES (${submission.digest}, ${owner}, now() + ${submission.retentionSeconds} * interval '1 second')
      ON CONFLICT DO NOTHING RETURNING 1),
    moved AS (
      UPDATE families SET identity = ${JSON.stringify(submission.identity)}, tier_id = ${offer.tier_id},
        template = ${JSON.stringify(offer.template)}, ticket_hash = ${submission.ticketHash}, ticket_issued_at = now(),
        ticket_expires_at = least(now() + ${submission.ticketSeconds} * interval '1 second', negotiation_expires_at)
      WHERE owner = ${owner} AND family = ${family} AND state = 'need_info' AND ticket_hash IS NULL
        AND negotiation_expires_at > now() AND EXISTS (SELECT FROM fresh)
      RETURNING 1)
    SELECT EXISTS (SELECT FROM fresh) AS fresh, EXISTS (SELECT FROM moved) AS moved`
  const { rows } = await statement.execute(db)
  if (rows[0]!.moved) return 'accepted'
  return rows[0]!.fresh ? 'gone' : 'spent'
}
