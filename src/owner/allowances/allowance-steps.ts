/**
 * Owns the steps that every change of an allowance takes: it is read, and it is saved in the version that was
 * shown to her. Contract: "Owner API"; an addition (docs/details/owner-api.md).
 */
import { ApiError } from '../../client/api-error.ts'
import { NOT_SERVED } from '../../client/exchange.ts'
import type { OwnerAllowance } from '../../wire/documents/allowance.ts'
import { ask } from '../display/answers.ts'
import type { OwnerSession } from '../session.ts'
import { contentOf } from './allowance-file.ts'
import type { AllowanceRecord } from './allowance-record.ts'

/** One allowance of hers. Fails with `not_found` if she has none of this id. */
export async function readAllowance(session: OwnerSession, id: string): Promise<AllowanceRecord> {
  return (await ask(session, { method: 'GET', path: pathOf(id) })) as unknown as AllowanceRecord
}

/** The same, or undefined if she has none. Fails if the authority has no allowances at all. */
export async function findAllowance(session: OwnerSession, id: string): Promise<AllowanceRecord | undefined> {
  try {
    return await readAllowance(session, id)
  } catch (error) {
    if (error instanceof ApiError && error.status === 404 && error.reason !== NOT_SERVED) return undefined
    throw error
  }
}

/**
 * Saves it, if the authority still has the version before, or none if this is version 1. Fails with
 * `precondition_failed` if somebody else saved it meanwhile.
 */
export async function saveAllowance(
  session: OwnerSession,
  allowance: OwnerAllowance,
): Promise<OwnerAllowance> {
  const { id, version } = allowance
  const headers: Record<string, string> =
    version === 1 ? { 'if-none-match': '*' } : { 'if-match': `"${version - 1}"` }
  const saved = await ask(session, { method: 'PUT', path: pathOf(id), body: contentOf(allowance), headers })
  return saved as unknown as OwnerAllowance
}

function pathOf(id: string): string {
  return `/owner/allowances/${encodeURIComponent(id)}`
}
