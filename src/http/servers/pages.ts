/**
 * Owns how lists are paged: `after` and `limit`, a `Link` to the next page of an array. Contract: "Owner API"
 * (bodies), "Limits".
 */
import { z } from 'zod'

const LIMIT_DEFAULT = 100
const LIMIT_MAX = 1_000

/** Text that Postgres can hold and compare: not empty, no NUL. */
export const plainText = (max: number) =>
  z
    .string()
    .min(1)
    .max(max, `give at most ${max} characters`)
    .refine(text => !text.includes('\0'), 'leave out the NUL character')

const limit = z
  .string()
  .regex(/^\d{1,4}$/, `give a whole number from 1 to ${LIMIT_MAX}`)
  .transform(Number)
  .refine(value => value >= 1 && value <= LIMIT_MAX, `give a whole number from 1 to ${LIMIT_MAX}`)
  .default(LIMIT_DEFAULT)

/** `after` names the last item of the page before, by the list's own key. */
export const PAGE = z.strictObject({ after: plainText(2_048).optional(), limit })

/** Like `PAGE`, for lists keyed by a number; `after` is 0 if left out. */
export const NUMBERED_PAGE = z.strictObject({
  after: z
    .string()
    .regex(/^\d{1,15}$/, 'give the number of an entry')
    .transform(Number)
    .default(0),
  limit,
})

/** Reading one item more than requested tells whether there is a next page. */
export function pageOf<T>(rows: readonly T[], count: number): { items: T[]; last: T | undefined } {
  const items = rows.slice(0, count)
  return { items, last: rows.length > count ? items.at(-1) : undefined }
}

/**
 * The header that names the next page (RFC 8288), as a reference relative to the request: the address that
 * the caller used is not known here. `next` is undefined on the last page; `filter` are further parameters to
 * keep.
 */
export function nextLink(
  path: string,
  next: { after: string; limit: number } | undefined,
  filter: Record<string, string> = {},
): Record<string, string> {
  if (next === undefined) return {}
  const query = new URLSearchParams({ ...filter, after: next.after, limit: String(next.limit) })
  return { link: `<${path}?${query.toString()}>; rel="next"` }
}
