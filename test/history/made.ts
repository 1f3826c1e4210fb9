/** Owns histories that tests of the judgement make up: operations with what of them matters there. */
import type { Op, Outcome, Share } from './record.ts'

export const CAST = {
  agents: [
    { owner: 'alice', handle: 'a', operator: 'https://one' },
    { owner: 'alice', handle: 'b', operator: 'https://two' },
  ],
}

export type Made = { op: Op['op'] } & Record<string, unknown>

/** Operations one after the other, ten milliseconds each, where they do not say when they were. */
export function history(...made: Made[]): Op[] {
  return made.map((one, n) => {
    const outcome =
      (one['outcome'] as Outcome | undefined) ?? (one['code'] === undefined ? 'done' : 'refused')
    const at = n * 20
    const until = outcome === 'unknown' ? Infinity : at + 10
    return { n, at, until, outcome, via: 'authority-1', owner: 'alice', ...one } as Op
  })
}

const grant = (more: object = {}) => ({
  jti: 'g',
  family: 'f',
  handle: 'a',
  tier: 'reading',
  version: 1,
  single: false,
  iat: 0,
  exp: 600,
  agreed: 600,
  ...more,
})
export const granted = (more: object = {}): Made => {
  const given = grant(more)
  const { family, handle } = given
  return { op: 'present', handle, ticket: `of ${given.jti}`, answer: 'granted', family, grant: given }
}
export const single = granted({ single: true })
export const call = (more: object = {}): Made => ({ op: 'call', jti: 'g', exact: true, ...more })
export const present = (ticket: string, more: object = {}): Made => ({
  op: 'present',
  handle: 'a',
  ticket,
  ...more,
})
export const submitted = (more: object = {}) =>
  present('t', { answer: 'submitted', family: 'f', kind: 'connection', ...more })
let requests = 0
export const decide = (decision: string, more: object = {}): Made => ({
  op: 'decide',
  family: 'f',
  handle: 'a',
  kind: 'connection',
  decision,
  request: `decide ${requests++}`,
  ...more,
})
export const ends = (op: 'revoke' | 'block' | 'unblock', whom: string, more: object = {}): Made => ({
  op,
  whom,
  ended: 1,
  request: `${op} ${requests++}`,
  ...more,
})
export const edit = (version: number, more: object = {}): Made => ({
  op: 'edit',
  tier: 'reading',
  version,
  request: `edit ${requests++}`,
  ...more,
})
export const read = (after: number, entries: object[], more: object = {}): Made => ({
  op: 'read',
  after,
  entries: entries.map((entry, at) => ({ seq: after + at + 1, ...entry })),
  ...more,
})
export const waiting = (...items: string[]): Made => ({ op: 'waiting', items })

/** A grant that took its share of an allowance, unless its family was approved. */
export const taken = (
  jti: string,
  price: number,
  more: { grant?: object } & Record<string, unknown> = {},
): Made => {
  const { grant: ofGrant, ...rest } = more
  const share: Share = { allowance: 'shop', price, agreed: 600, beyond: false }
  return { ...granted({ jti, family: `of ${jti}`, single: true, ...ofGrant }), share, ...rest }
}
export const allow = (makes: number, max: number, more: object = {}): Made => ({
  op: 'allow',
  allowance: 'shop',
  makes,
  among: 'all',
  open: true,
  windows: [{ of: 'price', per: 'all', max }],
  request: `allow ${requests++}`,
  ...more,
})
export const uses = (used: number, more: object = {}): Made => ({
  op: 'uses',
  allowance: 'shop',
  windows: [{ of: 'price', per: 'all', whose: '', starts: 0, used }],
  ...more,
})
