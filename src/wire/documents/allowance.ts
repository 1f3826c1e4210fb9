/**
 * Owns an owner's allowance: what agents may do at her ask-me tiers without asking each time. It is for the
 * authority that stores and describes it, for her clients, and for the rules that judge an operation by it.
 * Contract: "Policy vocabulary and tiers", "Owner API"; an addition (docs/details/owner-api.md).
 */
import { z } from 'zod'
import { PERIODS, UNIT_MAX } from '../allowance-words.ts'
import { DECIMAL } from '../decimal.ts'
import type { Json } from '../json.ts'
import { parsePointer } from '../json-pointer.ts'
import { ALLOWANCE_ID, NAME_PATTERN } from '../names.ts'

export type { AllowancePeriod } from '../allowance-words.ts'

const line = (max: number) =>
  z
    .string()
    .min(1)
    .max(max)
    .regex(/^[^\p{Cc}\p{Cs}]+$/u, 'leave out control characters')

const DECIMAL_SENTENCE =
  'give a decimal number as text, with at most 15 digits and 9 behind a full stop, such as "50" or "0.25"'
const decimal = z.string(DECIMAL_SENTENCE).regex(DECIMAL, DECIMAL_SENTENCE)
const amountName = z
  .string()
  .regex(/^[a-z][a-z0-9_]{0,31}$/, 'give a small letter, then small letters, digits or `_`, at most 32')
const pointer = z
  .string()
  .max(400)
  .refine(
    text => parsePointer(text) !== undefined,
    'give a JSON pointer to a member of the parameters, such as /order/amount',
  )
/** An object whose members are named as things of hers are, not by a declaration. */
const byName = <Value extends z.ZodType>(name: z.ZodString, value: Value, what: string) =>
  z.record(name, value, {
    error: ({ code }) => (code === 'invalid_key' ? `name ${what} as it is named elsewhere` : undefined),
  })
const zone = z
  .string()
  .regex(/^[A-Za-z][A-Za-z0-9_+/-]{0,63}$/, 'give the name of a time zone, such as Europe/Zurich')

const TIME = /^(\d{4}-\d\d-\d\d)T\d\d:\d\d:\d\d(?:\.\d{1,3})?(?:Z|[+-]\d\d:\d\d)$/
const LATEST = Date.parse('9999-12-31T00:00:00Z')

/** Whether it is a time on a day that the calendar has, from 1970 on. */
function isTime(text: string): boolean {
  const day = TIME.exec(text)?.[1]
  const at = Date.parse(text)
  if (day === undefined || Number.isNaN(at) || at < 0 || at > LATEST) return false
  const midnight = Date.parse(`${day}T00:00:00Z`)
  return !Number.isNaN(midnight) && new Date(midnight).toISOString().startsWith(day)
}

/** `unit` is compared with the operation if a tier has a `unit_pointer`; otherwise it is a word for her. */
const AMOUNT = z.strictObject({
  name: amountName,
  unit: line(UNIT_MAX).optional(),
  each_max: decimal.optional(),
})
/** `of` is `calls` or the name of an amount. */
const WINDOW = z.strictObject({ of: amountName, per: z.enum(PERIODS), max: decimal })
/** Where an amount stands. `query`: as an array of exactly one string, as the query of a plain API has it. */
const PLACE = z.strictObject({
  pointer,
  as: z.enum(['number', 'string', 'query']).default('number'),
  unit_pointer: pointer.optional(),
})
const ONLY = z.strictObject({
  pointer,
  one_of: z
    .array(z.custom<Json>(value => value !== undefined))
    .min(1)
    .max(100),
})
/** What an operation at one tier must be like. A parameter that nothing here names is beyond it. */
const AT_TIER = z.strictObject({
  tools: z.array(line(200)).min(1).max(16),
  amounts: byName(amountName, PLACE, 'an amount').default({}),
  only: z.array(ONLY).max(16).default([]),
  free: z.array(pointer).max(16).default([]),
})

const WINDOWS_MAX = 8

const MEMBERS = {
  hold_s: z.int().min(60).max(3_600),
  amounts: z.array(AMOUNT).max(4),
  windows: z.array(WINDOW).max(WINDOWS_MAX),
  tiers: byName(z.string().regex(NAME_PATTERN), AT_TIER, 'a tier'),
}

const EXAMPLE = {
  zone: 'Europe/Zurich',
  among: 'all',
  until: '2026-03-08T22:00:00.000Z',
  hold_s: 300,
  amounts: [{ name: 'price', unit: 'CHF', each_max: '50' }],
  windows: [{ of: 'price', per: 'day', max: '200' }],
  tiers: {
    shopping: {
      tools: ['place_order'],
      amounts: { price: { pointer: '/price', as: 'number', unit_pointer: '/currency' } },
      only: [{ pointer: '/payee', one_of: ['Corner Bakery'] }],
      free: ['/note'],
    },
  },
}

/** As she saves it. `zone` and `among` left out stay as they are, or are `UTC` and `all` in a new one. */
export const ALLOWANCE_CONTENT = z
  .strictObject({
    /** Repeats the one in the path. */
    id: z.string().optional(),
    /** Repeated as it was read, and not looked at: `If-Match` says which version she edited. */
    version: z.int().optional(),
    zone: zone.optional(),
    among: z.enum(['all', 'lineage']).optional(),
    /** Nothing is left after it; null means no end. */
    until: z
      .string()
      .refine(isTime, 'give a time with its offset, such as 2026-03-08T22:00:00Z')
      .nullable()
      .default(null),
    hold_s: MEMBERS.hold_s.default(300),
    amounts: MEMBERS.amounts.default([]),
    /** A `ceiling` is repeated as it was read, and not looked at. */
    windows: z
      .array(WINDOW.extend({ ceiling: z.string().exactOptional() }))
      .max(WINDOWS_MAX)
      .default([]),
    tiers: MEMBERS.tiers.default({}),
    /** As `version`: what is used is counted, and nobody sets it. */
    use: z.unknown().optional(),
    more: z.unknown().optional(),
    held_more: z.unknown().optional(),
  })
  .meta({ id: 'AllowanceContent', examples: [EXAMPLE] })

/** As it is answered. */
export const OWNER_ALLOWANCE = z
  .strictObject({
    id: z.string().regex(ALLOWANCE_ID),
    /** From 1; each edit adds one. */
    version: z.int().min(1),
    zone,
    /** `all`: one set of windows for all her agents. `lineage`: for each agent with those it introduced. */
    among: z.enum(['all', 'lineage']),
    /** ISO 8601 in UTC. */
    until: z.string().nullable(),
    ...MEMBERS,
  })
  .meta({ id: 'OwnerAllowance', examples: [{ id: 'weekend', version: 1, ...EXAMPLE }] })

/**
 * As she reads it: `ceiling` stands in a window of which her organization lets less through at what it
 * governs than she does.
 */
const SHOWN_ALLOWANCE = OWNER_ALLOWANCE.extend({
  windows: z.array(WINDOW.extend({ ceiling: decimal.exactOptional() })).max(WINDOWS_MAX),
})

/** The sum of many amounts, without zeros at its end. */
const total = z.string().regex(/^\d{1,25}(\.\d{1,9})?$/)
/** A present window and what is used of it. */
const WINDOW_USE = z.strictObject({
  ...WINDOW.shape,
  /** All that grants took, spent or not. */
  used: total,
  /** The part of it that unspent grants hold: it goes back if they expire so. */
  held: total,
  /** `max` without `used`, and never less than nothing. */
  left: total,
  /** ISO 8601 in UTC, as is `ends`, when the next begins; null for `all`. */
  starts: z.string(),
  ends: z.string().nullable(),
})

/** As its owner reads it, with what is used. */
export const ALLOWANCE_IN_USE = z
  .strictObject({
    ...SHOWN_ALLOWANCE.shape,
    /**
     * One set of windows; with `among: "lineage"` one for each lineage that used something in them, the most
     * recent first. None if the authority cannot tell.
     */
    use: z
      .array(
        z.strictObject({
          /** The handle of the agent that the lineage is named after; left out if all share one set. */
          whose: z.string().optional(),
          windows: z.array(WINDOW_USE).max(8),
        }),
      )
      .max(100),
    /** There are more lineages. */
    more: z.literal(true).optional(),
    /** There are more unspent grants than were looked at, so that `held` is more than it says. */
    held_more: z.literal(true).optional(),
  })
  .meta({
    id: 'AllowanceInUse',
    examples: [
      {
        id: 'weekend',
        version: 1,
        ...EXAMPLE,
        use: [
          {
            windows: [
              {
                of: 'price',
                per: 'day',
                max: '200',
                used: '62.5',
                held: '12.5',
                left: '137.5',
                starts: '2026-03-06T23:00:00.000Z',
                ends: '2026-03-07T23:00:00.000Z',
              },
            ],
          },
        ],
      },
    ],
  })

export type AllowanceContent = z.output<typeof ALLOWANCE_CONTENT>
export type OwnerAllowance = z.output<typeof OWNER_ALLOWANCE>
export type ShownAllowance = z.output<typeof SHOWN_ALLOWANCE>
export type AllowanceInUse = z.output<typeof ALLOWANCE_IN_USE>
/** What it says at one tier. */
export type TierAllowance = OwnerAllowance['tiers'][string]
