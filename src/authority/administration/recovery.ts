/**
 * Codes by which an owner gets a credential: her first one at once; another one, if she can use none of hers,
 * after a delay during which any of her credentials can stop it. Contract: "Authentication" (owner at the
 * owner API; no static owner credential exists).
 */
import type { Actor } from '../../wire/owner/actor.ts'
import { sha256 } from '../../wire/encoding.ts'
import type { Owner } from '../../wire/identifiers.ts'
import { refuse } from '../../wire/refusal.ts'
import type { Tx } from '../../storage/authority/database.ts'
import { appendEvent } from '../../storage/authority/ledger/events.ts'
import { appendLedger } from '../../storage/authority/ledger/ledger.ts'
import { hasCredential, replaceEnrolmentCode } from '../../storage/authority/credentials/logins.ts'
import { lockQueue, readOwner } from '../../storage/authority/owners/owners.ts'
import { startRecovery } from '../../storage/authority/credentials/recoveries.ts'
import { newCode } from '../owner/credentials/enrolment.ts'

/** The settings by which a code is issued. */
export interface Enrolling {
  readonly enrolmentSeconds: number
  /** The time from the start of a recovery until its code is good. */
  readonly recoverySeconds: number
  /** The kinds of credentials that are accepted here; only these count. */
  readonly accepted: { deviceKeys: boolean; issuer: string | undefined }
}

/** A code, and the times between which it is good. */
export interface IssuedCode {
  owner: string
  code: string
  expires_at: string
  /** Only of a recovery: the code is refused before this time. */
  in_force_at?: string
}

/**
 * Issues a code and ends the previous code of its kind. For an owner who has a credential, `recover` is
 * required, and she is told at once. Refuses 404 if she is not served, 409 if she has a credential and this
 * is no recovery.
 */
export async function issueCode(
  tx: Tx,
  { enrolmentSeconds, recoverySeconds, accepted }: Enrolling,
  { owner, recover, actor }: { owner: Owner; recover: boolean; actor: Actor },
): Promise<IssuedCode> {
  await lockQueue(tx, owner)
  const row = await readOwner(tx, owner)
  if (row === undefined)
    refuse(
      'not_found',
      `This authority serves no owner ${owner}: add her first (usher authority owner add ${owner}).`,
    )
  const code = newCode(row.tag)
  const made = { owner, code_sha256: sha256(code), lifetimeSeconds: enrolmentSeconds }
  if (!(await hasCredential(tx, owner, accepted)))
    return { owner, code, expires_at: await replaceEnrolmentCode(tx, made) }
  if (!recover)
    refuse(
      'conflict',
      `${owner} has a credential, by which she enrols others herself. If she can use none, start a recovery (--recover, or "recover": true).`,
    )
  const started = await startRecovery(tx, { ...made, delaySeconds: recoverySeconds })
  const { in_force_at, expires_at } = started
  const data = { in_force_at, expires_at, by: 'authority', actor }
  await appendLedger(tx, owner, { kind: 'recovery_started', data })
  await appendEvent(tx, owner, 'recovery', { what: 'started', ...data })
  return { owner, code, in_force_at, expires_at }
}
