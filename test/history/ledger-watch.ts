/**
 * Owns what is remembered about the ledgers after a part of a history: how far each was read, and a digest of
 * what was read there, so that a reader from the very start must find the same at the end.
 */
import { createHash, type Hash } from 'node:crypto'
import { exchange, prepare } from '../support/authority.ts'
import type { Person, Processes } from './processes.ts'
import type { Entry, Violation } from './record.ts'

export interface LedgerWatch {
  /** The position behind which a part begins. */
  base(owner: string): number
  /** All that a part found in a ledger, once nothing is disturbed any more. */
  keep(owner: string, entries: readonly Entry[]): void
  /** Reads every ledger from its very start. */
  readWhole(processes: Processes): Promise<Violation[]>
}

const PAGE = 1_000

/** Begins with nothing read. */
export function ledgerWatch(): LedgerWatch {
  const kept = new Map<string, { last: number; hash: Hash }>()
  const keptOf = (owner: string): { last: number; hash: Hash } => {
    const one = kept.get(owner) ?? { last: 0, hash: createHash('sha256') }
    kept.set(owner, one)
    return one
  }

  async function readOne(processes: Processes, person: Person): Promise<string | undefined> {
    const { last, hash } = keptOf(person.owner)
    const now = createHash('sha256')
    for (let after = 0; after < last;) {
      const target = `/owner/ledger?limit=${Math.min(PAGE, last - after)}&after=${after}`
      const { ownerUrl } = processes.authorities[0]!
      const reply = await exchange(prepare(ownerUrl, processes.issuer, person, { target }))
      if (reply.status !== 200) return `the ledger of ${person.owner} cannot be read: ${reply.status}`
      const entries = (reply.body.entries as Entry[]).map(entryOf)
      const gap = entries.find(({ seq }, at) => seq !== after + at + 1)
      if (gap !== undefined || entries.length === 0)
        return `a reader of ${person.owner} finds ${gap?.seq} behind ${after}`
      for (const entry of entries) now.update(lineOf(entry))
      after = entries.at(-1)!.seq
    }
    return now.digest('hex') === hash.copy().digest('hex')
      ? undefined
      : `what was read of ${person.owner} is not what a later reader finds`
  }

  return {
    base: owner => keptOf(owner).last,
    keep: (owner, entries) => {
      const one = keptOf(owner)
      for (const entry of entries) one.hash.update(lineOf(entry))
      one.last = entries.at(-1)?.seq ?? one.last
    },
    readWhole: async processes => {
      const found = await Promise.all(processes.people.map(person => readOne(processes, person)))
      return found.filter(says => says !== undefined).map(says => ({ rule: 'ledger', says, ops: [] }))
    },
  }
}

/** What is kept of an entry as it is told. */
export function entryOf(entry: Entry): Entry {
  const { seq, kind, family, handle, by, operator, template_id, allowance, version } = entry
  return { seq, kind, family, handle, by, operator, template_id, allowance, version }
}

const lineOf = (entry: Entry): string => `${JSON.stringify(entry)}\n`
