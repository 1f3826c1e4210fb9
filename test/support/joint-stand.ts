/**
 * Owns a tally with two authorization servers of holders, bea at one, carl and dora at the other, and an
 * agent that negotiates for what they hold together.
 */
import type { PrivateKey } from '../../src/wire/signatures/keys.ts'
import { startTestHolder, type TestHolder } from './holder.ts'
import { accountOf, startTestTally, type TestTally } from './tally.ts'
import { negotiating, type Negotiating } from './tally-negotiation.ts'
import { newKey } from './wire-samples.ts'

export interface JointStand extends Negotiating {
  tally: TestTally
  /** Of bea, and of carl and dora. */
  holders: [TestHolder, TestHolder]
  agent: PrivateKey
  /** The account as its file declares it. */
  account: object
  close(): Promise<void>
}

interface JointAccount {
  /** Of bea, carl and dora. */
  weights?: readonly number[]
  /** As the account is declared. */
  [member: string]: unknown
}

/**
 * Two of the three, whose weights are alike, must allow, or as `changes` of the account say; `environment` is
 * the tally's.
 */
export async function startJointStand(
  { weights: [bea, carl, dora] = [1, 1, 1], ...changes }: JointAccount = {},
  environment: Record<string, string> = {},
): Promise<JointStand> {
  const holders: [TestHolder, TestHolder] = [await startTestHolder(), await startTestHolder()]
  const [first, second] = holders
  const account = accountOf({
    holders: [
      { owner: 'bea', issuer: first.issuer, weight: bea },
      { owner: 'carl', issuer: second.issuer, weight: carl },
      { owner: 'dora', issuer: second.issuer, weight: dora },
    ],
    rule: { kind: 'threshold', threshold: 2 },
    ...changes,
  })
  const tally = await startTestTally({ accounts: [account], environment })
  const { body } = await tally.request('/mandate/family-1')
  for (const holder of holders) holder.mandate_s256 = body.mandate_s256 as string
  const agent = newKey()
  return {
    tally,
    holders,
    agent,
    account,
    ...negotiating(tally, agent),
    close: async () => {
      await tally.close()
      await Promise.all(holders.map(holder => holder.close()))
    },
  }
}
