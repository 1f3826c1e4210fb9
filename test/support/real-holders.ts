/**
 * Owns a real tally with real authorization servers of those who hold its account: bea at one, carl and dora
 * at the other, each party in two replicas behind one address. Requests go to each replica in turn, unless a
 * test names one.
 */
import type { PrivateKey } from '../../src/wire/signatures/keys.ts'
import { startAlternatingDoor, type AlternatingDoor } from './alternating-door.ts'
import { startTestAuthority, type OwnerCall, type Reply, type TestAuthority } from './authority.ts'
import { JOINT_TIER } from './joint-holder.ts'
import { ACCOUNT, accountOf, startTestTally, type TestTally } from './tally.ts'
import { negotiating, type Negotiating } from './tally-negotiation.ts'
import { newKey } from './wire-samples.ts'
import { until } from './until.ts'

type Replicas<T> = [T, T]
export type HolderName = 'bea' | 'carl' | 'dora'

export interface RealHolders extends Negotiating {
  tallies: Replicas<TestTally>
  /** Of bea; of carl and dora. */
  authorities: Replicas<Replicas<TestAuthority>>
  /** In front of the tally; and of bea's server. */
  doors: { tally: AlternatingDoor; bea: AlternatingDoor }
  account: ReturnType<typeof accountOf>
  agent: PrivateKey
  /** What she asks of her own server, at one of its replicas. */
  own(name: HolderName, call: OwnerCall, replica?: 0 | 1): Promise<Reply>
  /** She reads the mandate, agrees to exactly it, and offers her terms; `tier` exchanges members of them. */
  holds(name: HolderName, tier?: object): Promise<void>
  /** Decides what waits for her of this agent, once it does. @returns it. */
  decides(
    name: HolderName,
    decision: 'approved' | 'denied',
    replica?: 0 | 1,
  ): Promise<Record<string, unknown>>
  /** What is known of a grant. */
  introspected(granted: Reply): Promise<Record<string, unknown>>
  /** The same parties, another agent that nobody knows. */
  stranger(): RealHolders
  close(): Promise<void>
}

/** Two of the three must allow. Nobody has agreed to anything yet. */
export async function startRealHolders(): Promise<RealHolders> {
  const [tallyDoor, beaDoor, otherDoor] = await Promise.all([1, 2, 3].map(() => startAlternatingDoor()))
  const holders = [
    { owner: 'bea', issuer: beaDoor!.url, weight: 1 },
    { owner: 'carl', issuer: otherDoor!.url, weight: 1 },
    { owner: 'dora', issuer: otherDoor!.url, weight: 1 },
  ]
  const account = accountOf({ holders, rule: { kind: 'threshold', threshold: 2 } })
  const tally = await startTestTally({
    accounts: [account],
    environment: { UMA_TALLY_ISSUER: tallyDoor!.url },
  })
  const tallies: Replicas<TestTally> = [tally, await startTestTally({ beside: tally })]
  tallyDoor!.replicas.push(...tallies.map(({ publicUrl }) => publicUrl))
  const authorities: RealHolders['authorities'] = [
    await startServer(['bea'], beaDoor!, tallyDoor!.url),
    await startServer(['carl', 'dora'], otherDoor!, tallyDoor!.url),
  ]
  const close = async (): Promise<void> => {
    for (const one of tallies.toReversed()) await one.close()
    for (const [first, second] of authorities) {
      await second.close()
      await first.close()
    }
    await Promise.all([tallyDoor, beaDoor, otherDoor].map(door => door!.close()))
  }
  const doors = { tally: tallyDoor!, bea: beaDoor! }
  return standOf({ tallies, authorities, doors, account, close }, newKey())
}

async function startServer(
  owners: string[],
  door: AlternatingDoor,
  tally: string,
): Promise<Replicas<TestAuthority>> {
  const environment = { UMA_AS_ISSUER: door.url, UMA_AS_TALLIES: tally, UMA_DEV_LOOPBACK: 'true' }
  const first = await startTestAuthority({ owners, environment })
  const second = await startTestAuthority({ beside: first })
  door.replicas.push(first.publicUrl, second.publicUrl)
  return [first, second]
}

type Parties = Pick<RealHolders, 'tallies' | 'authorities' | 'doors' | 'account' | 'close'>

function standOf(parties: Parties, agent: PrivateKey): RealHolders {
  const { authorities, tallies } = parties
  const own: RealHolders['own'] = (name, call, replica = 0) => {
    const at = authorities[name === 'bea' ? 0 : 1][replica]
    return at.call(at.owners[name]!, call)
  }
  const expected = async (reply: Promise<Reply>): Promise<Reply> => {
    const { status, text } = await reply
    if (status >= 300) throw new Error(`it answered ${status} ${text}`)
    return reply
  }
  const steps = negotiating(tallies[0], agent)
  return {
    ...parties,
    ...steps,
    agent,
    own,
    holds: async (name, tier = {}) => {
      const named = { tally: parties.doors.tally.url, account: ACCOUNT }
      const preview = { method: 'POST', target: '/owner/joint/preview', json: named } as const
      const { mandate_s256 } = (await expected(own(name, preview))).body
      const json = { ...named, agreed: true, mandate_s256 }
      await expected(own(name, { method: 'POST', target: '/owner/joint', json }))
      const written = { ...JOINT_TIER, ...tier }
      await own(name, { method: 'DELETE', target: `/owner/policies/${written.id}` })
      await expected(own(name, { method: 'POST', target: '/owner/policies', json: written }))
    },
    decides: async (name, decision, replica = 0) => {
      let item: Record<string, unknown> | undefined
      await until(async () => {
        const { body } = await own(name, { target: '/owner/pending' }, replica)
        item = (body as Record<string, unknown>[]).find(({ handle }) => handle === `jkt:${agent.thumbprint}`)
        return item !== undefined
      })
      const target = `/owner/pending/${String(item!['family'])}/decision`
      await expected(own(name, { method: 'POST', target, json: { decision } }, replica))
      return item!
    },
    introspected: async ({ body }) =>
      (await steps.protection('/introspect', { token: body.access_token })).body,
    stranger: () => standOf(parties, newKey()),
  }
}

/** A request that a tally signed, as a holder's server received it: to be sent once more. */
export function finalQuestions(stand: RealHolders): string[] {
  const asked: string[] = []
  stand.doors.bea.loseAnswer(({ path, body }) => {
    if (path === '/joint/verdict') asked.push(body)
    return false
  })
  return asked
}

/** Another mandate at every replica of the tally: each reads its file as it starts. */
export async function changeMandate(stand: RealHolders, changes: object): Promise<TestTally> {
  stand.tallies[0].rewrite({ ...stand.account, ...changes })
  return startTestTally({ beside: stand.tallies[0] })
}
