/**
 * Tells an operator of each security event of the organization: every entry of its activity, once it is
 * committed, refused credentials, refused codes and emergencies, and decisions that refuse. Contract: "The
 * organization's authority", "Health".
 */
import {
  createSecurityLog,
  type SecurityLine,
  type SecurityLog,
  type SecurityLogOptions,
} from '../http/telemetry/security-log.ts'
import { onActivity, type AppendedActivity } from '../storage/organization/activity.ts'
import type { Db } from '../storage/organization/database.ts'
import { Refusal } from '../wire/refusal.ts'
import type { Organization } from './context.ts'

/**
 * What a line takes over from the data of an entry: ids, and words of ours. A name that is not listed here
 * stays out, so that no reason, text of a charter, attested fact or secret reaches the log.
 */
const LOGGED: ReadonlySet<string> = new Set([
  'act',
  'as_uri',
  'authorised_by',
  'by',
  'charter_version',
  'code_id',
  'family',
  'handle',
  'jti',
  'origin',
  'resource_id',
  'role',
  'status',
  'window_id',
])

/** Reports what is committed through `db` by this process. */
export function startSecurityLog(db: Db, options: SecurityLogOptions): SecurityLog {
  const security = createSecurityLog(options)
  onActivity(db, entry => security.report(securityLine(entry)))
  return security
}

/** What is reported of a request that was refused: whose, and the source whose lines are limited. */
interface RefusedAttempt {
  event: 'entry_refused' | 'emergency_refused'
  source: string
  ids: Record<string, string>
}

/**
 * Runs what proves that somebody may come in. Reports a refusal as an event with its `reason`; an outage and
 * a malformed request are none.
 */
export async function reportingRefusal<T>(
  { security }: Organization,
  { event, source, ids }: RefusedAttempt,
  prove: () => Promise<T>,
): Promise<T> {
  try {
    return await prove()
  } catch (error) {
    if (error instanceof Refusal && (error.status === 403 || error.status === 429))
      security.reportLimited(source, { event, ...ids, reason: reasonOf(error) })
    throw error
  }
}

function reasonOf({ status, code, extra }: Refusal): unknown {
  return status === 429 ? 'too_many_attempts' : (extra?.['reason'] ?? code)
}

function securityLine({ seq, kind, admin, owner, data }: AppendedActivity): SecurityLine {
  const logged = Object.entries(data).filter(([name]) => LOGGED.has(name))
  return {
    event: kind,
    seq,
    ...(admin !== undefined && { admin }),
    ...(owner !== undefined && { owner }),
    ...Object.fromEntries(logged),
  }
}
