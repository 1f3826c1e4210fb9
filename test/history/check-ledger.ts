/**
 * Owns the rules on the ledger: positions without gaps, the same to every reader, and every write that was
 * acknowledged in it exactly once, from its answer on. contract, "Events" (row 5).
 */
import type { Indexed } from './indexed.ts'
import { done, may, type Entry, type Op, type Present, type Read, type Violation } from './record.ts'

interface Book {
  owner: string
  /** By position, as they were first read. */
  entries: Map<number, Entry>
  /** By what they tell: `kind` and what it is about. */
  about: Map<string, Entry[]>
  leastAfter: (moment: number) => number
}

/** What is wrong with the ledgers; with `final` also what is missing from them. */
export function ledgerRules(indexed: Indexed, final: boolean): Violation[] {
  return [...indexed.reads].flatMap(([owner, reads]) => {
    const { book, found } = bookOf(owner, reads)
    return [...found, ...writesOf(indexed, book, final), ...(final ? callsTold(indexed, book) : [])]
  })
}

function bookOf(owner: string, reads: Read[]): { book: Book; found: Violation[] } {
  const found: Violation[] = []
  const book: Book = { owner, entries: new Map(), about: new Map(), leastAfter: leastAfter(reads) }
  for (const read of reads) {
    let next = read.after
    for (const entry of read.entries) {
      if (entry.seq !== ++next)
        found.push(wrong(`a reader of ${owner} finds ${entry.seq} where ${next} should be`, [read]))
      next = entry.seq
      const known = book.entries.get(entry.seq)
      if (known === undefined) keep(book, entry)
      else if (JSON.stringify(known) !== JSON.stringify(entry))
        found.push(wrong(`position ${entry.seq} of ${owner} is another entry to a later reader`, [read]))
    }
  }
  return { book, found }
}

function keep(book: Book, entry: Entry): void {
  book.entries.set(entry.seq, entry)
  const key = `${entry.kind} ${keyOf(entry)}`
  const known = book.about.get(key)
  if (known === undefined) book.about.set(key, [entry])
  else known.push(entry)
}

/** What an entry is about, as far as it can be told from others of its kind. */
function keyOf({ kind, family, handle, by, operator, template_id, allowance, version }: Entry): string {
  if (kind === 'allowance_changed' && typeof allowance === 'string') return `${allowance}/v${version}`
  if (kind === 'relaxed' && typeof allowance === 'object')
    return `${family} of ${allowance.id} for ${allowance.amounts['price']}`
  if (kind === 'policy_changed') return String(template_id)
  if (kind === 'approved' || kind === 'denied') return `${family} by ${by}`
  if (kind === 'revoked') return `${handle} for ${operator ?? 'herself'}`
  return String(family ?? operator ?? handle)
}

/** Entries that an acknowledged write is told by, how many they are, and how many more there may be. */
function writesOf(indexed: Indexed, book: Book, final: boolean): Violation[] {
  const wanted = new Map<string, { ops: Op[]; maybe: number }>()
  const want = (key: string, op: Op, sure: boolean): void => {
    const known = wanted.get(key) ?? { ops: [], maybe: 0 }
    if (sure) known.ops.push(op)
    else known.maybe++
    wanted.set(key, known)
  }
  for (const op of indexed.history) {
    if (op.owner !== book.owner || !may(op)) continue
    if (op.op === 'decide') want(`${op.decision} ${op.family} by owner`, op, done(op))
    if (op.op === 'edit' && op.version !== undefined)
      want(`policy_changed ${op.owner}/${op.tier}/v${op.version}`, op, true)
    if (op.op === 'allow') want(`allowance_changed ${op.allowance}/v${op.makes}`, op, done(op))
    if (op.op === 'present') wantRelaxed(indexed, op, want)
    if (op.op === 'revoke') {
      const times = done(op) ? op.ended! : 1
      if (times > 0) want(`revoked ${op.whom} for herself`, op, done(op))
    }
    if (op.op === 'present' && op.grant !== undefined) {
      const key = `promised ${op.grant.family}`
      want(key, op, true)
      // Edited terms are agreed to anew, in the same negotiation.
      const again = indexed.families.get(op.grant.family)?.presents.filter(one => one.answer === 'need_info')
      wanted.get(key)!.maybe += again?.length ?? 0
    }
  }
  return [...wanted].flatMap(([key, want]) => judge(book, key, want, final))
}

/** What was let through unasked under an allowance is told with what it took; what she approved is not. */
function wantRelaxed(
  indexed: Indexed,
  op: Present,
  want: (key: string, op: Op, sure: boolean) => void,
): void {
  const family = op.grant?.family ?? (done(op) ? undefined : op.family)
  if (op.share === undefined || family === undefined) return
  const isApproved = indexed.families
    .get(family)
    ?.decides.some(one => may(one) && one.decision === 'approved')
  want(
    `relaxed ${family} of ${op.share.allowance} for ${op.share.price}`,
    op,
    done(op) && isApproved !== true,
  )
}

// oxlint-disable-next-line eslint/max-params -- where, what, how often, and whether no more can come
function judge(book: Book, key: string, want: { ops: Op[]; maybe: number }, final: boolean): Violation[] {
  const entries = (book.about.get(key) ?? []).toSorted((a, b) => a.seq - b.seq)
  const ops = want.ops.toSorted((a, b) => a.until - b.until)
  if (entries.length > ops.length + want.maybe)
    return [wrong(`${entries.length} entries "${key}" for ${ops.length} writes`, ops)]
  if (final && entries.length < ops.length)
    return [wrong(`${entries.length} entries "${key}" for ${ops.length} acknowledged writes`, ops)]
  const late = ops.find((op, at) => book.leastAfter(op.until) < (entries[at]?.seq ?? Infinity))
  return late === undefined
    ? []
    : [wrong(`a reader did not find "${key}", which was acknowledged before`, [late])]
}

/** The least position to which a reader came who began after a moment. */
function leastAfter(reads: readonly Read[]): (moment: number) => number {
  const sorted = reads.toSorted((a, b) => a.at - b.at)
  const least: number[] = []
  for (let at = sorted.length - 1, sofar = Infinity; at >= 0; at--)
    least[at] = sofar = Math.min(sofar, sorted[at]!.entries.at(-1)?.seq ?? sorted[at]!.after)
  return moment => {
    let [low, high] = [0, sorted.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (sorted[middle]!.at > moment) high = middle
      else low = middle + 1
    }
    return least[low] ?? Infinity
  }
}

/** contract, "Events", 2: each call that was let through is told once. */
function callsTold(indexed: Indexed, book: Book): Violation[] {
  return [...indexed.grants.values()].flatMap(({ grant, by }) => {
    if (by.owner !== book.owner) return []
    const calls = indexed.callsOf.get(grant.jti) ?? []
    const passed = calls.filter(done)
    const maybe = calls.filter(({ outcome }) => outcome === 'unknown').length
    const told = book.about.get(`touched ${grant.family}`)?.length ?? 0
    const isTold = told >= passed.length && told <= passed.length + maybe
    return isTold
      ? []
      : [wrong(`${told} entries tell of ${passed.length} calls on ${grant.jti}`, [by, ...passed])]
  })
}

function wrong(says: string, ops: readonly Op[]): Violation {
  return { rule: 'ledger', says, ops: ops.map(({ n }) => n) }
}
