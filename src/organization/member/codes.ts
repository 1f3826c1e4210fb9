/**
 * Which code lets a person in: the one of her invitation, or the shared one. Contract: "The organization's authority" (join by invitation or
 * shared code), "Limits" (guessing).
 */
import type { FastifyRequest } from 'fastify'
import { refuseGuessing } from '../../credentials/attempt-limit.ts'
import {
  countWrongCode,
  readInvitationByCode,
  readJoinCode,
  wrongCodes,
  type Person,
} from '../../storage/organization/invitations.ts'
import type { Db } from '../../storage/organization/database.ts'
import { codeIdOf, isCode } from '../../wire/join-code.ts'
import { Refusal } from '../../wire/refusal.ts'
import type { Organization } from '../context.ts'

/** What wrong codes count against that are of no invitation. */
const SHARED = 'shared'
const WRONG_PER_HOUR_MAX = 20

/** A code that is good: of which invitation, or the shared one. */
export interface GoodCode {
  code_id: string | undefined
}

/**
 * Refuses 403 for a code that is unknown, used, withdrawn, expired or somebody else's, alike; 429 for a source or a code that was tried
 * too often in vain.
 */
export async function goodCode(
  { database, attempts }: Organization,
  { ip }: Pick<FastifyRequest, 'ip'>,
  { code, ...person }: Person & { code: string },
): Promise<GoodCode> {
  refuseGuessing(attempts, ip)
  const name = codeIdOf(code) ?? SHARED
  if ((await wrongCodes(database.db, name)) >= WRONG_PER_HOUR_MAX)
    throw new Refusal('temporarily_unavailable', 'Wait before you try this code again.', {
      status: 429,
      headers: { 'retry-after': '3600' },
    })
  const good = await codeOf(database.db, code, person)
  if (good !== undefined) return good
  attempts.failed(ip)
  await countWrongCode(database.db, name)
  throw invalidCode()
}

/** The same, within a transaction: undefined where the code is not good any more. */
export async function codeOf(db: Db, code: string, person: Person): Promise<GoodCode | undefined> {
  const code_id = codeIdOf(code)
  if (code_id === undefined) {
    const hash = await readJoinCode(db)
    return hash !== undefined && isCode(code, hash) ? { code_id } : undefined
  }
  const row = await readInvitationByCode(db, code_id)
  const isHers = row !== undefined && row.owner === person.owner && row.as_uri === person.as_uri
  return isHers && isCode(code, row.code_sha256) ? { code_id } : undefined
}

/** 403 for a code that is not good. */
export function invalidCode(): Refusal {
  return new Refusal('request_denied', 'Ask the organization for a code: this one is not good.', {
    extra: { reason: 'invalid_code' },
  })
}
