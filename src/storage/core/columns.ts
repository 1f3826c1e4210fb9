/**
 * The types of columns that every party's tables have, and of a page of their rows. Contract: "Resources and
 * their fields".
 */
import type { ColumnType } from 'kysely'

/** Timestamps leave Postgres as ISO 8601 strings in UTC, and are compared only by its clock. */
export type Timestamp = ColumnType<string, string | undefined, string>
export type NullableTimestamp = ColumnType<string | null, string | null | undefined, string | null>

/** Stored as `json`, not `jsonb`: agents author some of it, and jsonb refuses \u0000 and rewrites numbers. */
export type JsonColumn<T> = ColumnType<T, string, string>

/** A page of rows in the order of their key: those after this one, and how many of them at most. */
export interface KeyPage {
  after?: string | undefined
  limit: number
}
