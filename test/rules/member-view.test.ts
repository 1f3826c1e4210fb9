/**
 * What an organization binds a member to, in sentences: contract, "The organization's authority" (the charter
 * in sentences, before joining).
 */
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  agreedUnder,
  readAllowanceCeilings,
  readView,
} from '../../src/authority/organization/view-document.ts'
import { charterFault } from '../../src/rules/organization/charter.ts'
import { memberView, shownView } from '../../src/rules/organization/member-view.ts'
import { enlargements, type AgreedView } from '../../src/rules/organization/membership.ts'
import {
  parseCharter,
  VIEW_BYTES_MAX,
  type AllowanceCeiling,
  type Charter,
} from '../../src/wire/organization/charter.ts'
import type { Json } from '../../src/wire/json.ts'
import { charterOf } from '../support/organization.ts'
import { CHARTER, charterWith } from './charters.ts'

const summary = (envelope: object): string[] =>
  memberView({
    organization: { id: 'acme', name: 'Acme' },
    issuer: 'https://org.example',
    charter: parseCharter(JSON.parse(JSON.stringify(charterOf({ envelope })))),
    charter_version: 3,
    published_at: '2026-11-21T09:00:00.000Z',
    owner: 'alice',
    role: 'staff',
    view: 1,
  }).summary

describe('A charter in sentences', () => {
  it('says of each prohibition that agents must promise not to do it', () => {
    const said = summary({
      max_expires_in: 900,
      require_prohibited: ['passing it on', 'keeping a copy'],
    })
    expect(said.filter(one => one.includes('promise'))).toEqual([
      'Agents must promise not to: passing it on.',
      'Agents must promise not to: keeping a copy.',
    ])
    expect(summary({ max_expires_in: 900 }).join(' ')).not.toContain('promise')
  })

  it('says of each bound of allowances how much may pass in which time, and that nothing else does', () => {
    const said = summary({
      max_expires_in: 900,
      max_allowance: [
        { unit: 'EUR', per: 'day', max: '200' },
        { unit: 'EUR', per: 'all', max: '1000.50' },
      ],
    })
    expect(said.filter(one => /allowance/i.test(one))).toEqual([
      'An allowance may let through at most 200 EUR a day there.',
      'An allowance may let through at most 1000.50 EUR in all there.',
      'An allowance lets through nothing there that it counts in no such unit and time.',
      'Each allowance is bounded by itself, and for each agent if it counts each.',
    ])
    expect(summary({ max_expires_in: 900, max_allowance: [] })).toContain(
      'Nothing there passes by an allowance of yours.',
    )
    expect(summary({ max_expires_in: 900 }).join(' ')).not.toContain('llowance')
  })
})

describe('A unit of more than one word', () => {
  it('is quoted in the sentences of her own server, so that none of them goes on in it', () => {
    const unit = 'EUR in all. It can end no agent of yours. At most "1" CHF'
    const max_allowance: AllowanceCeiling[] = [{ unit, per: 'day', max: '200' }]
    const view = viewOf(charterWith({ envelope: { ...CHARTER.envelope, max_allowance } }))
    expect(shownView(view).summary).toContain(
      `An allowance may let through at most 200 ${JSON.stringify(unit)} a day there.`,
    )
  })
})

describe('The bounds of allowances in a view', () => {
  const bounding = (max_allowance?: AllowanceCeiling[]) =>
    charterWith({ envelope: { ...CHARTER.envelope, ...(max_allowance && { max_allowance }) } })
  const euros: AllowanceCeiling = { unit: 'EUR', per: 'day', max: '200' }

  it('are part of what she agrees to, in each of their members', () => {
    const lists = [undefined, [], [euros], [{ ...euros, max: '201' }], [{ ...euros, unit: 'CHF' }]]
    const digests = lists.map(list => viewOf(bounding(list)).binds_s256)
    expect(new Set(digests).size).toBe(lists.length)
  })

  it('are read as they were sent, and a view without them has none', () => {
    const view = read(bounding([euros]))
    expect(view.max_allowance).toEqual([euros])
    expect(shownView(view).own_words.join(' ')).not.toContain('llowance')
    expect(read(bounding())).not.toHaveProperty('max_allowance')
  })

  it('that rise, or end, wait for her: each is said by its number, unit and span', () => {
    const waits = (agreed: AllowanceCeiling[] | undefined, later: AllowanceCeiling[] | undefined) =>
      enlargements({ agreed: viewOf(bounding(agreed)), view: viewOf(bounding(later)) })
    const monthly: AllowanceCeiling = { ...euros, per: 'month', max: '1000' }
    const unbounded = 'An allowance could let through any amount of EUR a month there.'
    const more = 'An allowance could let through up to 200.5 EUR a day there.'
    expect(waits([euros], [{ ...euros, max: '200.5' }])).toEqual([more])
    expect(waits([], [{ ...euros, max: '200.5' }])).toEqual([more])
    expect(waits([euros, monthly], [euros])).toEqual([unbounded])
    expect(waits([euros], undefined)).toEqual(['It would not bound what your allowances let through there.'])
    for (const later of [[], [{ ...euros, max: '200.0' }], [{ ...euros, max: '10' }, monthly]])
      expect(waits([euros], later)).toEqual([])
    expect(waits(undefined, [euros])).toEqual([])
  })

  it('stay as low as any view said since she agreed, also as one that nobody here can read', () => {
    const agreed = viewOf(bounding([euros]))
    const lower = viewOf(bounding([{ ...euros, max: '10' }]))
    const later = viewOf(bounding([{ ...euros, max: '300' }]))
    expect(agreedUnder({ agreed, view: lower }, later).max_allowance).toEqual([{ ...euros, max: '10' }])
    const unread = { ...lower, max_allowance: [{ ...euros, per: 'year' }] as unknown as AllowanceCeiling[] }
    const kept = agreedUnder({ agreed, view: unread }, later)
    expect(readAllowanceCeilings([kept, later])).toBe('unreadable')
    const strange = { ...agreed, max_allowance: {} as unknown as AllowanceCeiling[] }
    expect(enlargements({ agreed: strange, view: later })).toEqual([
      'It would bound your allowances in another way.',
    ])
  })
})

describe('What a view has approved', () => {
  const asking = (always_ask: string[], claims = CHARTER.claims) =>
    viewOf(charterWith({ claims, envelope: { ...CHARTER.envelope, always_ask } }))
  /** What is approved after these lists, each of a later view than the one before. */
  const approvedAfter = (first: string[], ...lists: string[][]) => {
    let bound: AgreedView = { agreed: asking(first), view: asking(first) }
    for (const list of lists) bound = { agreed: agreedUnder(bound, asking(list)), view: asking(list) }
    return bound.agreed.always_ask
  }

  it('waits for her if a later one does not: each pattern that is still claimed is said', () => {
    const waits = (agreed: string[], later: string[], claims?: string[]) =>
      enlargements({ agreed: asking(agreed), view: asking(later, claims) })
    const through = (pattern: string) =>
      `A rule of yours could let an operation on ${pattern} through without anybody's approval.`
    expect(waits(['acme/a', 'acme/b-*'], ['acme/a'])).toEqual([through('acme/b-*')])
    expect(waits(['acme/a', 'acme/b'], [])).toEqual([through('acme/a'), through('acme/b')])
    expect(waits(['acme/*'], [], ['acme/a', 'acme/x/y'])).toEqual([through('acme/a')])
    expect(waits(['acme/a'], [], ['acme/b'])).toEqual([])
    for (const later of [['acme/a'], ['acme/*'], ['acme/b', 'acme/a']])
      expect(waits(['acme/a'], later)).toEqual([])
    expect(waits([], ['acme/a'])).toEqual([])
  })

  it('waits for her also where one of its patterns only overlaps with what is still claimed', () => {
    const waits = (claims: string[], later: string[] = []) =>
      enlargements({ agreed: asking(['acme/pay-*']), view: asking(later, claims) })
    const through = [
      "A rule of yours could let an operation on acme/pay-* through without anybody's approval.",
    ]
    expect(waits(['acme/*-eu'])).toEqual(through)
    expect(waits(['acme/pay-a', 'acme/*-eu'])).toEqual(through)
    expect(waits(['acme/*-eu'], ['acme/*-eu'])).toEqual([])
    expect(waits(['acme/mail-*', 'acme/*/*'])).toEqual([])
  })

  it('stays so as far as any view said since she agreed', () => {
    expect(approvedAfter(['acme/a'], [])).toEqual(['acme/a'])
    expect(approvedAfter(['acme/a'], ['acme/b'], [])).toEqual(['acme/a', 'acme/b'])
    expect(approvedAfter(['acme/a', 'acme/b'], ['acme/*'], ['acme/a'])).toEqual(['acme/*'])
    const before = { agreed: asking([]), view: asking(['acme/a']) }
    expect(agreedUnder(before, asking([])).always_ask).toEqual(['acme/a'])
  })

  it('is each claim of hers that a pattern touches, if views add up to more than a list holds', () => {
    expect(CHARTER.claims).toEqual(['acme/*', 'acme/*/*'])
    expect(approvedAfter(many(120, 20), many(80, 21))).toHaveLength(200)
    expect(approvedAfter(many(120, 20), many(81, 21))).toEqual(['acme/*'])
    expect(approvedAfter(many(120, 20), many(81, 21), [])).toEqual(['acme/*'])
    expect(approvedAfter(many(120, 20), many(81, 21), ['acme/x*/y'])).toEqual(['acme/*', 'acme/x*/y'])
  })
})

describe('A view as her own server tells it', () => {
  it('says what an honest organization says, but for its conditions and rules, which stand apart', () => {
    const charter = charterWith({
      conditions: { ...CHARTER.conditions, require_reason: true },
      rules: [{ when: ['request.reason_absent'], then: 'refuse', resources: ['acme/mail'] }],
    })
    const view = viewOf(charter, 'staff')
    const shown = shownView(view)
    const bySelf = view.summary.map(one => one.replace(/^Acme /, 'It '))
    expect([...shown.summary, ...shown.own_words].toSorted()).toEqual(bySelf.toSorted())
    expect(shown.own_words).toEqual([
      'Agents need binding of at least 1.',
      'Agents need accountability of at least 1.',
      'Agents must give a reason.',
      'Refused: acme/mail when request.reason_absent.',
    ])
    expect(shown.powers).toEqual(view.powers)
  })
})

const ISSUER = 'https://org.example'
const viewOf = (charter: Charter, role: string | null = null) =>
  memberView({
    organization: { id: 'acme', name: 'Acme' },
    issuer: ISSUER,
    charter,
    charter_version: 3,
    published_at: '2026-11-21T09:00:00.000Z',
    owner: 'alice',
    role,
    view: 1,
  })
/** As it comes over the wire. */
const read = (charter: Charter, role: string | null = null) =>
  readView(JSON.parse(JSON.stringify(viewOf(charter, role))) as Json, ISSUER)
const many = (count: number, length: number, first = 'acme') =>
  Array.from({ length: count }, (_, i) => `${first}/${String(i).padEnd(length - first.length - 1, 'x')}`)
const saying = (claims: string[], changes: Partial<Charter> = {}) =>
  charterWith({
    claims,
    roles: { staff: { name: 'Staff', grants: claims, delegation: 'any-agent' } },
    default_role: 'staff',
    envelope: { ...CHARTER.envelope, always_ask: claims },
    rules: [],
    break_glass: { ...CHARTER.break_glass, resources: claims },
    ...changes,
  })

describe('A charter that the organization saves', () => {
  it('is read by each member: of 200 claims, all of which are in its sentences', () => {
    const claims = many(200, 60)
    const charter = saying(claims)
    expect(charterFault(charter)).toBeUndefined()
    const view = read(charter, 'staff')
    const governing = view.summary.filter(sentence => sentence.startsWith('Acme governs '))
    expect(governing.length).toBeGreaterThan(1)
    for (const claim of claims) expect(governing.join(' ')).toContain(claim)
    for (const sentence of view.summary) expect(sentence.length).toBeLessThanOrEqual(2_000)
    for (const { detail } of Object.values(view.powers).flat())
      expect(detail.length).toBeLessThanOrEqual(2_000)
  })

  it('says each value of a long list once, and which of them are enough', () => {
    const values = Array.from({ length: 30 }, (_, i) => `${i}-${'v'.repeat(200)}`)
    const charter = charterWith({
      envelope: { ...CHARTER.envelope, require_clearance: { screening: values } },
    })
    const said = read(charter).summary.filter(sentence => sentence.includes('screening'))
    expect(said[0]).toMatch(/^An agent may act for you there only if screening is 0-v+ or 1-v+/)
    expect(said.length).toBeGreaterThan(1)
    expect(said.slice(1).every(sentence => sentence.startsWith('Or if screening is '))).toBe(true)
    expect(said.join(' ').match(/\d+-v+/g)).toEqual(values)
  })

  it.each<[string, Charter, RegExp]>([
    [
      'whose view would be too large',
      saying(many(200, 250)),
      /^charter: say less: a member's view would have \d+ bytes/,
    ],
    [
      'with more sentences than a view has',
      charterWith({
        envelope: {
          ...CHARTER.envelope,
          require_clearance: Object.fromEntries(Array.from({ length: 1_001 }, (_, i) => [`f${i}`, ['x']])),
        },
      }),
      /^charter: say less: members would read \d+ sentences/,
    ],
    [
      'with a rule that no sentence holds',
      charterWith({
        rules: [
          {
            when: Array.from({ length: 100 }, (_, i) => `request.max_expiry:${i + 1}m`),
            then: 'ask',
            resources: ['acme/files/*'],
          },
        ],
      }),
      /^charter: say less in one sentence/,
    ],
  ])('is refused %s, saying so', (_, charter, fault) => {
    expect(charterFault(charter)).toMatch(fault)
  })

  it('is one that each member can read, whatever it says', () => {
    const names = fc.tuple(fc.integer({ min: 0, max: 200 }), fc.integer({ min: 12, max: 256 }))
    const texts = fc.uniqueArray(fc.stringMatching(/^[a-z]{1,490}$/), { maxLength: 60 })
    const facts = fc.dictionary(
      fc.stringMatching(/^[a-z]{1,60}$/),
      fc.uniqueArray(fc.stringMatching(/^[a-z]{1,400}$/), { minLength: 1, maxLength: 40 }),
      { maxKeys: 30 },
    )
    let saved = 0
    fc.assert(
      fc.property(names, texts, facts, ([count, length], require_prohibited, require_clearance) => {
        const claims = many(count, length)
        const envelope = { ...CHARTER.envelope, always_ask: claims, require_prohibited, require_clearance }
        const charter = parseCharter(JSON.parse(JSON.stringify(saying(claims, { envelope }))))
        if (charterFault(charter) !== undefined) return
        saved += 1
        for (const role of ['staff', null]) {
          read(charter, role)
          expect(JSON.stringify(viewOf(charter, role)).length).toBeLessThanOrEqual(VIEW_BYTES_MAX)
        }
      }),
      { numRuns: 60 },
    )
    expect(saved).toBeGreaterThan(20)
  })
})
