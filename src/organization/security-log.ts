/**
 * Tells an operator of each security event of the organization: every entry of its activity, once it is
 * committed, refused credentials, and decisions that refuse. Contract: "The organization's authority",
 * "Health".
 */
import {
  createSecurityLog,
  type SecurityLine,
  type SecurityLog,
  type SecurityLogOptions,
} from '../http/security-log.ts'
import { onActivity, type AppendedActivity } from '../storage/organization/activity.ts'
import type { Db } from '../storage/organization/database.ts'

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
])

/** Reports what is committed through `db` by this process. */
export function startSecurityLog(db: Db, options: SecurityLogOptions): SecurityLog {
  const security = createSecurityLog(options)
  onActivity(db, entry => security.report(securityLine(entry)))
  return security
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
