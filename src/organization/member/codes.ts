/**
 * Which code lets a person in: the one of her invitation, or the shared one. Contract: "The organization's
 * authority" (join by invitation or shared code), "Limits" (guessing).
 */
import type { FastifyRequest } from 'fastify'
import { refuseGuessing } from '../../credentials/attempt-limit.ts'
import {
  countWrongCode,
  readInvitation,
  readInvitationByCode,
  readJoinCode,
  wrongCodes,
  type InvitationRow,
  type Person,
} from '../../storage/organization/invitations.ts'
import type { Db } from '../../storage/organization/database.ts'
import { codeIdOf, isCode } from '../../wire/organization/join-code.ts'
import { askLater, Refusal } from '../../wire/refusal.ts'
import type { Organization } from '../context.ts'
import { reportingRefusal } from '../security-log.ts'

/** The bucket that counts wrong codes that belong to no invitation. */
const SHARED = 'shared'
const WRONG_PER_HOUR_MAX = 20

/** A valid code: its invitation, or the shared one. */
export interface GoodCode {
  code_id: string | undefined
}

/**
 * Refuses 403 alike if a code is unknown, used, withdrawn, expired or somebody else's; 429 if a source or a
 * code failed too often.
 */
export function goodCode(
  organization: Organization,
  request: Pick<FastifyRequest, 'ip'>,
  { code, ...person }: Person & { code: string },
): Promise<GoodCode> {
  return withoutGuessing(organization, request, { code, find: db => codeOf(db, code, person) })
}

/** The same for the code of one of her invitations, even one that has been answered. @returns its id. */
export function goodInvitation(
  organization: Organization,
  request: Pick<FastifyRequest, 'ip'>,
  { code, ...person }: Person & { code: string },
): Promise<string> {
  const { owner, as_uri } = person
  const attempt = { event: 'entry_refused', source: as_uri, ids: { owner, as_uri } } as const
  return reportingRefusal(organization, attempt, () =>
    withoutGuessing(organization, request, { code, find: db => invitationOf(db, code, person) }),
  )
}

async function withoutGuessing<T>(
  { database: { ofNobody: db }, attempts }: Organization,
  { ip }: Pick<FastifyRequest, 'ip'>,
  { code, find }: { code: string; find: (db: Db) => Promise<T | undefined> },
): Promise<T> {
  refuseGuessing(attempts, ip)
  const name = codeIdOf(code) ?? SHARED
  if ((await wrongCodes(db, name)) >= WRONG_PER_HOUR_MAX)
    throw askLater('Wait before you try this code again.', 3_600)
  const good = await find(db)
  if (good !== undefined) return good
  attempts.failed(ip)
  await countWrongCode(db, name)
  throw invalidCode()
}

/** The same, within a transaction: undefined if the code is no longer valid. */
export async function codeOf(db: Db, code: string, person: Person): Promise<GoodCode | undefined> {
  const code_id = codeIdOf(code)
  if (code_id === undefined) {
    const hash = await readJoinCode(db)
    return hash !== undefined && isCode(code, hash) ? { code_id } : undefined
  }
  const row = await readInvitationByCode(db, code_id)
  return isHers(row, code, person) ? { code_id } : undefined
}

async function invitationOf(db: Db, code: string, person: Person): Promise<string | undefined> {
  const code_id = codeIdOf(code)
  const row = code_id === undefined ? undefined : await readInvitation(db, code_id)
  return isHers(row, code, person) ? code_id : undefined
}

function isHers(row: InvitationRow | undefined, code: string, { owner, as_uri }: Person): boolean {
  return row !== undefined && row.owner === owner && row.as_uri === as_uri && isCode(code, row.code_sha256)
}

/** 403 for a code that is not good. */
export function invalidCode(): Refusal {
  return new Refusal('request_denied', 'Ask the organization for a code: this one is not valid.', {
    extra: { reason: 'invalid_code' },
  })
}
