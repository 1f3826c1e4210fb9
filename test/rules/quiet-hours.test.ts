/**
 * When an owner is told of what can be undone: contract, "Events" (row 1), "Owner API".
 */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isTimeZone, mayWait, sendingTime, TIME_OF_DAY } from '../../src/rules/quiet-hours.ts'
import type { MessageTiming, QuietHours } from '../../src/wire/owner/owner-api.ts'

const ZURICH = 'Europe/Zurich'
const at = (text: string): number => Date.parse(text) / 1_000
const text = (seconds: number): string => new Date(seconds * 1_000).toISOString().slice(0, 19) + 'Z'
const quiet = (from: string, until: string, time_zone = ZURICH): QuietHours => ({ from, until, time_zone })
/** What a clock on the wall shows, by another way than the rule's. */
const shown = (seconds: number, time_zone: string): string =>
  new Date(seconds * 1_000).toLocaleTimeString('sv-SE', { timeZone: time_zone, timeStyle: 'short' })
const isQuiet = (seconds: number, { from, until, time_zone }: QuietHours): boolean => {
  const time = shown(seconds, time_zone)
  return from < until ? from <= time && time < until : from <= time || time < until
}

describe('A message that may wait', () => {
  const night = quiet('22:00', '07:00')
  const none = { quiet_hours: null, digest_minutes: null }
  it.each<[string, MessageTiming, { now: string; oldest?: string }, string]>([
    ['at once where nothing is set', none, { now: '2026-01-15T23:00:00Z' }, '2026-01-15T23:00:00Z'],
    ...(
      [
        ['a second before they begin', night, '2026-01-15T20:59:59Z', '2026-01-15T20:59:59Z'],
        [
          'at their end, from the moment on that they begin',
          night,
          '2026-01-15T21:00:00Z',
          '2026-01-16T06:00:00Z',
        ],
        ['at their end, after midnight', night, '2026-01-16T00:30:00Z', '2026-01-16T06:00:00Z'],
        ['at their end, a second before it', night, '2026-01-16T05:59:59Z', '2026-01-16T06:00:00Z'],
        ['at once, from the moment on that they end', night, '2026-01-16T06:00:00Z', '2026-01-16T06:00:00Z'],
        [
          'at the end of hours of one day',
          quiet('12:00', '14:00'),
          '2026-01-15T11:30:00Z',
          '2026-01-15T13:00:00Z',
        ],
        [
          'at once, outside of hours of one day',
          quiet('12:00', '14:00'),
          '2026-01-15T20:00:00Z',
          '2026-01-15T20:00:00Z',
        ],
        [
          'after a day but for a minute',
          quiet('12:01', '12:00'),
          '2026-01-15T11:01:00Z',
          '2026-01-16T11:00:00Z',
        ],
        [
          'at midnight, if they end there',
          quiet('20:00', '00:00'),
          '2026-01-15T20:00:00Z',
          '2026-01-15T23:00:00Z',
        ],
        [
          'by a clock of half hours',
          quiet('22:00', '07:00', 'Asia/Kolkata'),
          '2026-01-15T20:00:00Z',
          '2026-01-16T01:30:00Z',
        ],
        [
          'an hour sooner, in the night in which one is skipped',
          night,
          '2026-03-28T22:00:00Z',
          '2026-03-29T05:00:00Z',
        ],
        [
          'an hour later, in the night in which one is repeated',
          night,
          '2026-10-24T22:00:00Z',
          '2026-10-25T06:00:00Z',
        ],
        [
          'if the clock is put forward over their end',
          quiet('22:00', '02:30'),
          '2026-03-29T00:30:00Z',
          '2026-03-29T01:00:00Z',
        ],
        [
          'at once, if the clock skips all of them',
          quiet('02:10', '02:50'),
          '2026-03-29T01:00:00Z',
          '2026-03-29T01:00:00Z',
        ],
        [
          'at their end, if the clock skips their beginning',
          quiet('02:30', '05:00'),
          '2026-03-29T01:00:00Z',
          '2026-03-29T03:00:00Z',
        ],
        [
          'at the first time that shows the end',
          quiet('22:00', '02:30'),
          '2026-10-24T23:30:00Z',
          '2026-10-25T00:30:00Z',
        ],
        [
          'at the second, if it began between the two',
          quiet('22:00', '02:30'),
          '2026-10-25T01:10:00Z',
          '2026-10-25T01:30:00Z',
        ],
        [
          'after an hour that is repeated as a whole',
          quiet('02:00', '03:00'),
          '2026-10-25T00:10:00Z',
          '2026-10-25T02:00:00Z',
        ],
        [
          'in a zone that is known no more, at once',
          quiet('22:00', '07:00', 'Mars/Olympus'),
          '2026-01-16T00:30:00Z',
          '2026-01-16T00:30:00Z',
        ],
      ] as const
    ).map(([says, quiet_hours, now, sent]): [string, MessageTiming, { now: string }, string] => [
      `${says} (${quiet_hours.from} to ${quiet_hours.until})`,
      { quiet_hours, digest_minutes: null },
      { now },
      sent,
    ]),
    ...(
      [
        [
          'so long after the oldest',
          null,
          '2026-01-15T12:00:00Z',
          '2026-01-15T12:10:00Z',
          '2026-01-15T13:00:00Z',
        ],
        [
          'at once, if the oldest is older',
          null,
          '2026-01-15T12:00:00Z',
          '2026-01-15T14:00:00Z',
          '2026-01-15T14:00:00Z',
        ],
        [
          'after the quiet hours that it would fall into',
          night,
          '2026-01-15T20:30:00Z',
          '2026-01-15T20:30:00Z',
          '2026-01-16T06:00:00Z',
        ],
        [
          'later than the quiet hours in which the oldest came',
          night,
          '2026-01-16T05:30:00Z',
          '2026-01-16T05:30:00Z',
          '2026-01-16T06:30:00Z',
        ],
        [
          'with the quiet hours, if it ends sooner',
          night,
          '2026-01-15T23:00:00Z',
          '2026-01-16T01:00:00Z',
          '2026-01-16T06:00:00Z',
        ],
      ] as const
    ).map(
      ([says, quiet_hours, oldest, now, sent]): [
        string,
        MessageTiming,
        { now: string; oldest: string },
        string,
      ] => [`of a digest of an hour, ${says}`, { quiet_hours, digest_minutes: 60 }, { now, oldest }, sent],
    ),
  ])('is sent %s', (_says, timing, { now, oldest = now }, sent) => {
    expect(text(sendingTime(timing, { oldest: at(oldest), now: at(now) }))).toBe(sent)
  })

  const minute = fc.integer({ min: 0, max: 1_439 })
  const time = minute.map(
    of => `${String(Math.floor(of / 60)).padStart(2, '0')}:${String(of % 60).padStart(2, '0')}`,
  )
  const zone = fc.constantFrom(ZURICH, 'UTC', 'America/St_Johns', 'Australia/Lord_Howe', 'Asia/Kathmandu')
  const hours = fc
    .record({ from: time, until: time, time_zone: zone })
    .filter(({ from, until }) => from !== until)
  /** Any time of two years, and often one near a change of the clock. */
  const moment = fc.oneof(
    fc.integer({ min: at('2026-01-01T00:00:00Z'), max: at('2027-12-31T00:00:00Z') }),
    fc
      .tuple(
        fc.constantFrom(
          '2026-03-29T01:00:00Z',
          '2026-10-25T01:00:00Z',
          '2026-03-08T05:30:00Z',
          '2026-04-04T15:00:00Z',
        ),
        fc.integer({ min: -90_000, max: 90_000 }),
      )
      .map(([change, by]) => at(change) + by),
  )

  it('is never sent in the past, in quiet hours, before its digest, nor later than a day and an hour after that', () => {
    fc.assert(
      fc.property(
        hours,
        fc.option(fc.integer({ min: 1, max: 1_440 })),
        moment,
        fc.nat(200_000),
        (quiet_hours, digest_minutes, now, age) => {
          const oldest = now - age
          const sent = sendingTime({ quiet_hours, digest_minutes }, { oldest, now })
          const earliest = Math.max(now, oldest + (digest_minutes ?? 0) * 60)
          expect(sent).toBeGreaterThanOrEqual(earliest)
          expect(sent).toBeLessThan(earliest + 90_000)
          expect(isQuiet(sent, quiet_hours)).toBe(false)
        },
      ),
    )
  })

  it('is sent as soon as it is not quiet, and at that time is held back no more', () => {
    fc.assert(
      fc.property(hours, moment, (quiet_hours, now) => {
        const timing = { quiet_hours, digest_minutes: null }
        const sent = sendingTime(timing, { oldest: now, now })
        for (let before = now; before < sent; before += 60) expect(isQuiet(before, quiet_hours)).toBe(true)
        expect(sendingTime(timing, { oldest: now, now: sent })).toBe(sent)
      }),
      { numRuns: 40 },
    )
  })
})

describe('Whether a message may wait', () => {
  it.each([
    ['reversible', true],
    ['compensatable', true],
    ['forward_recoverable', true],
    ['irreversible', false],
    ['IRREVERSIBLE', false],
    ['harmless', false],
    [null, false],
    [undefined, false],
  ])('is said by the class of what is asked: %s', (consequence, may) => {
    expect(mayWait(consequence)).toBe(may)
  })
})

describe('Quiet hours', () => {
  it.each(['00:00', '09:05', '19:59', '23:59'])('are told by times of day: %s', time =>
    expect(time).toMatch(TIME_OF_DAY),
  )
  it.each(['24:00', '7:00', '07:60', '07:00:00', ' 07:00', '07:00\n', '٠٧:٠٠', ''])(
    'and by nothing else: %j',
    time => expect(time).not.toMatch(TIME_OF_DAY),
  )
  it.each([
    [ZURICH, true],
    ['UTC', true],
    ['America/Argentina/Buenos_Aires', true],
    ['Mars/Olympus', false],
    ['+01:00', false],
    ['', false],
    ['Europe/Zurich\0', false],
  ])('know the zone %j: %s', (name, known) => {
    expect(isTimeZone(name)).toBe(known)
  })
})
