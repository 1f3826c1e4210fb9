/**
 * Owns who acts in a part of a history: owners with their agents, and, beside them, owners with an allowance
 * and theirs, who have a chance of their own, so that a seed means the same to the others.
 */
import { freePorts } from '../../src/dev/stack/ports.ts'
import { createAgents, type Agents, type Setting } from './agents.ts'
import type { Chance } from './chance.ts'
import { createAllowances, type Allowances } from './allowances.ts'
import { createOwners, type Owners } from './owners.ts'
import type { LedgerWatch } from './ledger-watch.ts'
import type { Person, Processes } from './processes.ts'
import type { Recorder } from './recorder.ts'
import { boundedWishes, plainWishes, type Wishes } from './wishes.ts'

export interface GroupOptions {
  processes: Processes
  ledgers: LedgerWatch
  chance: Chance
  /** Of those who have to do with an allowance, so that what the others do does not depend on them. */
  boundedChance: Chance
  /** The id of the allowances of this part; without it their owners do nothing. */
  allowance: string | undefined
  clients: number
  callsAtOnce: number
  /** Whether agents call right before their owner ends something of theirs, and right after. */
  probes: boolean
}

export interface Group {
  agents: Agents
  owners: Owners
  allowances?: Allowances
  /** More at the same moment than there is room for, while nothing is disturbed yet. */
  opening?: () => Promise<void>
  /** How many act at the same time. */
  clients: number
  /** One of them does something of chance. */
  act: () => Promise<void>
}

const AGENTS_EACH = 5
const WEIGHTS = {
  negotiate: 32,
  standing: 28,
  single: 16,
  decide: 14,
  revoke: 1.2,
  block: 0.8,
  edit: 1,
  read: 7,
} as const
const BOUNDED_WEIGHTS = {
  negotiate: 30,
  rush: 6,
  single: 20,
  decide: 10,
  revoke: 0.8,
  block: 0.3,
  allow: 3,
  uses: 8,
  read: 3,
} as const
/** Agreements that are presented at the same time, so that they meet at one window. */
const RUSH = 8
const OPENING_RUSH = 20
/** For so many clients there is one more, who has to do with an allowance; two at least. */
const PLAIN_FOR_ONE = 5

/** Both, or only those without an allowance if the part has none. */
export async function groupsOf(options: GroupOptions, recorder: Recorder): Promise<Group[]> {
  const { chance, boundedChance, clients, allowance } = options
  const plain = await plainGroup(options, { recorder, chance, clients })
  if (allowance === undefined) return [plain]
  const few = Math.max(2, Math.round(clients / PLAIN_FOR_ONE))
  return [plain, await boundedGroup(options, { recorder, chance: boundedChance, clients: few }, allowance)]
}

type Actors = Pick<Setting, 'recorder' | 'chance'> & { clients: number }

async function plainGroup(options: GroupOptions, { recorder, chance, clients }: Actors): Promise<Group> {
  const setting = settingOf(options, { recorder, chance }, ({ deskSecret }) => deskSecret === undefined)
  const { agents, owners } = await peopleOf(options, setting, plainWishes(chance))
  const acts = {
    negotiate: agents.negotiate,
    standing: agents.callStanding,
    single: agents.callSingle,
    decide: owners.decide,
    revoke: owners.revoke,
    block: owners.blockOrUnblock,
    edit: owners.edit,
    read: owners.read,
  }
  return { agents, owners, clients, act: () => acts[chance.weighed(WEIGHTS)]() }
}

async function boundedGroup(
  options: GroupOptions,
  { recorder, chance, clients }: Actors,
  allowance: string,
): Promise<Group> {
  const setting = settingOf(options, { recorder, chance }, ({ deskSecret }) => deskSecret !== undefined)
  const { agents, owners } = await peopleOf(options, setting, boundedWishes(chance, allowance))
  const allowances = createAllowances(setting, allowance)
  const acts = {
    negotiate: agents.negotiate,
    rush: async () => {
      const { owner } = chance.of(setting.processes.people)
      // Mostly upwards, so that there is room, and not for all of them.
      await allowances.edit(owner)
      await agents.rush(owner, RUSH)
    },
    single: agents.callSingle,
    decide: owners.decide,
    revoke: owners.revoke,
    block: owners.blockOrUnblock,
    allow: () => allowances.edit(),
    uses: allowances.read,
    read: owners.read,
  }
  const opening = async (): Promise<void> => {
    for (const { owner } of setting.processes.people) await agents.rush(owner, OPENING_RUSH)
  }
  return { agents, owners, allowances, opening, clients, act: () => acts[chance.weighed(BOUNDED_WEIGHTS)]() }
}

/** These people only, over all processes. */
function settingOf(
  { processes, callsAtOnce }: GroupOptions,
  of: Pick<Setting, 'recorder' | 'chance'>,
  isOne: (person: Person) => boolean,
): Setting {
  return { ...of, callsAtOnce, processes: { ...processes, people: processes.people.filter(isOne) } }
}

async function peopleOf(
  { ledgers, probes }: GroupOptions,
  setting: Setting,
  wishes: Wishes,
): Promise<{ agents: Agents; owners: Owners }> {
  // New ones each time, so that nothing that was granted or blocked before matters to this part.
  const agents = createAgents(setting, { perOwner: AGENTS_EACH, origins: await newOrigins(2), wishes })
  const probe = probes ? agents.callStandingOf : () => Promise.resolve()
  return { agents, owners: createOwners(setting, agents.all, { ledgers, probe }) }
}

const origins = new Set<string>()

async function newOrigins(count: number): Promise<string[]> {
  const made: string[] = []
  while (made.length < count) {
    const origin = `https://127.0.0.1:${(await freePorts(1))[0]}`
    if (!origins.has(origin)) made.push(origin)
    origins.add(origin)
  }
  return made
}
