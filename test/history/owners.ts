/**
 * Owns what owners do in a history: they decide what waits, end connections, block operators, edit tiers and
 * read their ledgers, each request at an authority of chance, and some sent twice byte for byte.
 */
import type { OwnerCall } from '../support/authority.ts'
import type { Agent, Setting } from './agents.ts'
import { entryOf, type LedgerWatch } from './ledger-watch.ts'
import type { Person } from './processes.ts'
import { ownerRequests, plainly } from './owner-requests.ts'
import type { Entry, Read } from './record.ts'
import { ask, type Came } from './requests.ts'

export interface Owners {
  /** Decides up to three of what waits. */
  decide: () => Promise<void>
  /** Lets in whatever waits. */
  approveAll: () => Promise<void>
  revoke: () => Promise<void>
  /** Blocks an operator, or takes back the last block. */
  blockOrUnblock: () => Promise<void>
  edit: () => Promise<void>
  /** Reads on in a ledger. */
  read: () => Promise<void>
  /** Refuses whatever waits, so that the next part finds no queue. */
  denyAll: () => Promise<void>
  /** Reads on in every ledger; throws if that is not answered. */
  readAllOn: () => Promise<void>
  /** Reads every ledger from the start of this part; throws if that is not answered. */
  readAll: () => Promise<void>
}

interface PendingItem {
  family: string
  handle: string
  kind: string
  resource_id: string
  operation: unknown
}

const PAGE = 1_000
const TIERS = ['reading', 'trading'] as const
const READ_TRIES_MAX = 100

/** The owners of a setting, whose agents these are. */
export function createOwners(
  { processes, recorder, chance }: Setting,
  agents: readonly Agent[],
  { ledgers, probe }: { ledgers: LedgerWatch; probe: (agent: Agent) => Promise<void> },
): Owners {
  const blocked: { person: Person; origin: string }[] = []
  const cursors = new Map(processes.people.map(({ owner }) => [owner as string, ledgers.base(owner)]))
  const handles = new Set(agents.map(({ handle }) => handle))
  const anyone = (): Person => chance.of(processes.people)
  const { own, look, change } = ownerRequests({ processes, recorder, chance })

  async function waiting(person: Person): Promise<PendingItem[]> {
    const via = chance.below(2)
    const op = recorder.begin({ op: 'waiting', owner: person.owner, items: [], via: `authority-${via + 1}` })
    const came = await ask(own(person, { target: '/owner/pending?limit=1000' }, via))
    const listed = came.outcome === 'done' ? (came.body as PendingItem[]) : []
    const items = listed.filter(({ handle }) => handles.has(handle))
    const keys = items.map(({ handle, resource_id, operation }) =>
      JSON.stringify([handle, resource_id, operation]),
    )
    recorder.end(op, { outcome: came.outcome, code: came.code, items: keys })
    return items
  }

  function decideOne(person: Person, item: PendingItem, decision: 'approved' | 'denied'): Promise<Came> {
    const { family, handle, kind } = item
    const call: OwnerCall = {
      method: 'POST',
      target: `/owner/pending/${family}/decision`,
      json: { decision },
    }
    const { owner } = person
    return change(
      person,
      call,
      (request, via) => ({ op: 'decide', owner, family, handle, kind, decision, request, via }),
      plainly,
    )
  }

  async function end(person: Person, op: 'revoke' | 'block' | 'unblock', whom: string): Promise<Came> {
    const json = op === 'revoke' ? { handle: whom } : { origin: whom }
    const target = op === 'revoke' ? '/owner/connections/revoke' : `/owner/operators/${op}`
    return change(
      person,
      { method: 'POST', target, json },
      (request, via) => ({ op, owner: person.owner, whom, request, via }),
      came => ({ ...plainly(came), ended: came.body?.connections_revoked }),
    )
  }

  async function readOn(person: Person, after: number): Promise<Read> {
    const via = chance.below(2)
    const { owner } = person
    const op = recorder.begin({ op: 'read', owner, after, entries: [], via: `authority-${via + 1}` }) as Read
    const entries: Entry[] = []
    for (let from = after; ;) {
      const came = await ask(own(person, { target: `/owner/ledger?limit=${PAGE}&after=${from}` }, via))
      if (came.outcome !== 'done') {
        recorder.end(op, plainly(came))
        return op
      }
      const page = came.body.entries as Entry[]
      entries.push(...page.map(entryOf))
      from = entries.at(-1)?.seq ?? after
      if (page.length < PAGE) break
    }
    recorder.end(op, { outcome: 'done', entries })
    return op
  }

  async function readUntilTold(person: Person, after: number): Promise<Read> {
    for (let tries = 1; ; tries++) {
      const op = await readOn(person, after)
      if (op.outcome === 'done') {
        cursors.set(person.owner, op.entries.at(-1)?.seq ?? after)
        return op
      }
      if (tries === READ_TRIES_MAX) throw new Error(`the ledger of ${person.owner} cannot be read`)
    }
  }

  async function answerAll(decision: 'approved' | 'denied'): Promise<void> {
    for (const person of processes.people)
      for (const item of await waiting(person)) await decideOne(person, item, decision)
  }

  return {
    decide: async () => {
      const person = anyone()
      const items = await waiting(person)
      for (let left = 3; left > 0 && items.length > 0; left--) {
        const [item] = items.splice(chance.below(items.length), 1)
        const decision = chance.next() < 0.85 ? 'approved' : 'denied'
        const other = decision === 'approved' ? 'denied' : 'approved'
        // Two of her portals at the same time: the first one decides.
        const both = chance.next() < 0.15 ? [decideOne(person, item!, other)] : []
        await Promise.all([decideOne(person, item!, decision), ...both])
      }
    },
    approveAll: () => answerAll('approved'),
    denyAll: () => answerAll('denied'),
    revoke: async () => {
      const agent = chance.of(agents)
      await probe(agent)
      await end(
        processes.people.find(({ owner }) => owner === agent.owner)!,
        'revoke',
        agent.handle,
      )
      await probe(agent)
    },
    blockOrUnblock: async () => {
      const last = blocked.shift()
      if (last !== undefined) {
        const came = await end(last.person, 'unblock', last.origin)
        if (came.outcome !== 'done') blocked.unshift(last)
        return
      }
      const agent = chance.of(agents)
      const { owner, operator: origin } = agent
      const person = processes.people.find(one => one.owner === owner)!
      await probe(agent)
      const came = await end(person, 'block', origin)
      await probe(agent)
      // Where nothing is known of it, it is taken back as well.
      if (came.outcome !== 'away' && came.outcome !== 'refused') blocked.push({ person, origin })
    },
    edit: async () => {
      const person = anyone()
      const tier = chance.of(TIERS)
      const json = { terms: { expires_in: 600 + chance.below(3_000) } }
      const { owner } = person
      await change(
        person,
        { method: 'PUT', target: `/owner/policies/${tier}`, json },
        (request, via) => ({ op: 'edit', owner, tier, request, via }),
        came => ({ ...plainly(came), version: versionOf(came.body?.terms?.template_id) }),
      )
    },
    read: async () => {
      const person = anyone()
      const after = cursors.get(person.owner)!
      const { entries } = await readOn(person, after)
      const last = entries.at(-1)?.seq ?? 0
      if (last > cursors.get(person.owner)!) cursors.set(person.owner, last)
      // Sometimes what a reader of the past finds, too.
      else if (chance.next() < 0.1) await look(person, { target: `/owner/ledger?limit=10&order=desc` })
    },
    readAllOn: async () => {
      for (const person of processes.people) await readUntilTold(person, cursors.get(person.owner)!)
    },
    readAll: async () => {
      for (const person of processes.people) {
        const { entries } = await readUntilTold(person, ledgers.base(person.owner))
        ledgers.keep(person.owner, entries)
      }
    },
  }
}

function versionOf(template: unknown): number | undefined {
  return typeof template === 'string' ? Number(template.split('/v').at(-1)) : undefined
}
