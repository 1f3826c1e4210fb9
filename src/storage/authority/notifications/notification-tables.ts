/**
 * The rows of notifications that owners get outside their pages, as Postgres holds them. Contract: "Owner
 * API".
 */
import type { ColumnType, Generated } from 'kysely'
import type { NullableTimestamp, Timestamp } from '../../core/columns.ts'
import type { QuietHours } from '../../../wire/owner/owner-api.ts'
import type { Family, Owner } from '../../../wire/identifiers.ts'

/** An address for her messages; `p256dh` and `auth` are a browser's. */
export interface SubscriptionsTable {
  owner: Owner
  id: string
  kind: 'webhook' | 'push'
  name: string
  endpoint: string
  origin: string
  p256dh: string | null
  auth: string | null
  created_at: Timestamp
  sent_at: NullableTimestamp
  /** Failures since the last message that was accepted. */
  failures: Generated<number>
  failing_since: NullableTimestamp
  retry_at: NullableTimestamp
  quiet_hours: ColumnType<QuietHours | null, string | null | undefined, string | null>
  digest_minutes: ColumnType<number | null, number | null | undefined, number | null>
}

/** One message to one of them that must still be sent. */
export interface NotificationsTable {
  owner: Owner
  id: string
  subscription: string
  family: Family
  since: Timestamp
  at: Timestamp
  /** What it is about can be undone, so it may be held back. */
  may_wait: Generated<boolean>
  /** Equal to `at` while it is held back; null if it never was. */
  held_until: NullableTimestamp
  held_seconds: Generated<number>
}
