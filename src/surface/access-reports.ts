/**
 * POST /audit/access: the enforcement point reports allowed calls, at least once; each is stored once, if the
 * party tells its owners what happened. The runs of an enforcement point number their reports, so missing
 * ones are noticed. Contract: "Protection API" (/audit/access), "Events" (row 2).
 */
import { z } from 'zod'
import { endpoint, type Endpoint } from '../http/servers/endpoint.ts'
import { invalidPat, PAT, standsFor, type PatGuard, type PatHolder } from './pat-guard.ts'
import type { ResourceServers } from './resource-servers.ts'
import { OWNER_ENDS } from '../wire/documents/owner-ends.ts'
import { asFamily, type ClientId, type Family, type Owner } from '../wire/identifiers.ts'

const SUMMARY_BYTES_MAX = 1_024
const ENTRIES_MAX = 500
const noNul = (max: number) =>
  z
    .string()
    .min(1)
    .max(max)
    .refine(text => !text.includes('\0'), 'must not contain NUL')

/** The end of the year 9999, in seconds since the epoch: a clock that tells a later time is broken. */
const TIME_MAX = 253_402_300_799

/**
 * One run of an enforcement point, from its start to its end, and the number of a call that it let through
 * for this owner: 1, 2, 3, …
 */
const INSTANCE = noNul(100)
const NUMBER = z.int().min(1)

const ENTRY = z.object({
  /** One call, however often it is reported; without it every report is another call. */
  id: noNul(100).optional(),
  family: noNul(100),
  /** The id of the grant that was used; if left out, that of the family. */
  jti: noNul(100).optional(),
  tool: z.string().min(1).max(400),
  summary: z
    .string()
    .refine(
      text => Buffer.byteLength(text) <= SUMMARY_BYTES_MAX,
      `must be at most ${SUMMARY_BYTES_MAX} bytes`,
    )
    .optional(),
  /** Seconds since the epoch at which the call was let through; now if left out. */
  at: z
    .number()
    .int()
    .nonnegative()
    .transform(at => (at > TIME_MAX ? undefined : at))
    .optional(),
  /** The same in milliseconds, if the enforcement point knows it so exactly. */
  at_ms: z
    .number()
    .int()
    .nonnegative()
    .transform(at => (at > TIME_MAX * 1_000 ? undefined : at))
    .optional(),
  /** What the party answered when it judged the call. */
  judged: OWNER_ENDS.optional(),
  instance: INSTANCE.optional(),
  n: NUMBER.optional(),
})
const NUMBERED = ENTRY.refine(
  ({ instance, n }) => (instance === undefined) === (n === undefined),
  'give both instance and n, or neither',
)
/**
 * How far a run has come; `ended`: it lets no more calls through. Strict, so that no faulty report is
 * mistaken for it.
 */
const WORD = z.strictObject({ instance: INSTANCE, n: NUMBER, ended: z.boolean().optional() })
const REPORT = z.union([z.object({ entries: z.array(NUMBERED).min(1).max(ENTRIES_MAX) }), WORD, NUMBERED])
export type AccessReportEntry = z.infer<typeof ENTRY> & { family: Family }
export type ReportWord = z.infer<typeof WORD>

/** The owner of the grants that a resource server reports on. */
export interface Reporter {
  owner: Owner
  client_id: ClientId
  aud: string
}

/** Where reports are kept. */
export interface AccessRecord {
  /**
   * Stores reports of a resource server, in order: each number of a run once, otherwise each id once, and
   * every report that has neither.
   * @returns how many were newly recorded, and the positions of the reports that name no grant of this owner
   * for this server.
   */
  record(
    by: Reporter,
    reports: readonly AccessReportEntry[],
  ): Promise<{ recorded: number; unknown: readonly number[] }>
  /**
   * Records how far a run of a resource server has come: reports of it that have not come by now never will.
   */
  hear(by: Reporter, word: ReportWord): Promise<void>
}

export interface AccessReportEndpoint {
  guard: PatGuard
  servers: ResourceServers
  accesses: AccessRecord
}

const RECORDED = z.object({
  recorded: z.int().min(0),
  /** Reports without an id or a number were among them: sent again, they are recorded again. */
  idempotent: z.literal(false).optional(),
  error: z.string().optional(),
  unknown: z.array(z.string()).optional(),
})

/**
 * `{recorded: n}`, n the newly recorded; entries that belong to no grant of this server are listed, by id or
 * else by family.
 */
export const AUDIT_ACCESS: Endpoint<AccessReportEndpoint> = endpoint({
  method: 'post',
  path: '/audit/access',
  rows: ['post-audit-access'],
  summary: 'Reports allowed calls, idempotent by run and number or by id; or how far a run has come',
  credential: PAT,
  body: { schema: REPORT, form: 'unlisted' },
  answers: {
    200: {
      says: 'How many were newly recorded.',
      schema: RECORDED,
      headers: { 'cache-control': 'no-store' },
    },
  },
  handle: async (of: AccessReportEndpoint, { caller, body, answer }) =>
    answer(
      200,
      'entries' in body || 'family' in body
        ? await record(of, caller, reportsIn(body))
        : await hear(of, caller, body),
    ),
})

type Reports = Exclude<z.output<typeof REPORT>, ReportWord>

function reportsIn(body: Reports): AccessReportEntry[] {
  const entries = 'entries' in body ? body.entries : [body]
  return entries.map(entry => ({ ...entry, family: asFamily(entry.family) }))
}

async function reporter({ servers }: AccessReportEndpoint, holder: PatHolder): Promise<Reporter> {
  const { owner, client_id } = holder
  const server = await servers.read(owner, client_id)
  if (server === undefined || !standsFor(server, holder)) throw invalidPat()
  return { owner, client_id, aud: server.resource_uri }
}

async function hear(
  of: AccessReportEndpoint,
  holder: PatHolder,
  word: ReportWord,
): Promise<{ recorded: number }> {
  await of.accesses.hear(await reporter(of, holder), word)
  return { recorded: 0 }
}

async function record(
  of: AccessReportEndpoint,
  holder: PatHolder,
  reports: AccessReportEntry[],
): Promise<z.output<typeof RECORDED>> {
  const { recorded, unknown } = await of.accesses.record(await reporter(of, holder), reports)
  const named = unknown.map(position => reports[position]!.id ?? reports[position]!.family)
  const isIdempotent = reports.every(({ id, instance }) => id !== undefined || instance !== undefined)
  return {
    recorded,
    ...(isIdempotent ? {} : { idempotent: false }),
    ...(named.length > 0 ? { error: 'unknown_token', unknown: named } : {}),
  }
}
