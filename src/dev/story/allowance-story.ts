/**
 * Owns the story of an allowance: alice says once how far trades may go, three go through without a question,
 * and whatever is beyond it comes to her, until midnight and after it. Contract: "Policy vocabulary and
 * tiers"; an addition (docs/details/owner-api.md).
 */
import { readAll, shortName, type PendingItem } from '../../owner/index.ts'
import {
  ALLOWANCE,
  approve,
  cardOf,
  DAY_BACK,
  deny,
  endDay,
  expectLimit,
  expectPlaced,
  expectUse,
  listOf,
  startTrade,
  TIER,
  tradeAtOnce,
  tradeForHer,
  tradeOf,
  usedByDay,
  waitingTrade,
  writeAllowance,
  type StoryTrade,
} from './allowance-scene.ts'
import { grantFor } from './held-grants.ts'
import { usher } from './owner-command.ts'
import { expectEqual, expectThat, present, type Scene } from './scene.ts'
import { executions, got, note, sent, type StoryStep } from './story.ts'

/** The whole story, in its order: each step continues from the one before. */
export const ALLOWANCE_STORY: readonly StoryStep[] = [
  { title: 'She is asked about each trade, also of an agent that she knows', walk: eachTrade },
  { title: 'She says once how far trades may go, and reads what that opens, and to whom', walk: addition },
  { title: 'Three trades go through, and nobody asks her', walk: threeTrades },
  {
    title: 'The fourth is more than is left of the day: she is asked, and approves this one',
    walk: fourthTrade,
  },
  {
    title: 'She is asked about more than one trade may be, and about a payee with a space at its end',
    walk: otherTrades,
  },
  { title: 'She is asked about another agent, until she approves a trade of it', walk: otherAgent },
  {
    title: 'Two agents at once want the last of the day: one gets it, and she is asked about the other',
    walk: lastOfDay,
  },
  { title: 'Midnight comes, and the allowance begins anew', walk: midnight },
  { title: 'She ends it: nothing opens, and she is asked about each trade again', walk: ending },
  { title: 'Her ledger tells of each trade about which nobody asked her, and what it took', walk: ledger },
]

/** How a trade is sent. */
const callOf = (trade: StoryTrade): string =>
  sent(`POST /mcp/alice  tools/call place_trade ${JSON.stringify(trade)}`)

const DECISION = { approved: '{"decision":"approved"}', denied: '{"decision":"denied"}' } as const
/** How her decision is sent. */
const decisionOf = (family: string, decision: keyof typeof DECISION): string =>
  sent(`POST /owner/pending/${family}/decision  ${DECISION[decision]}`)

/** Why she is asked, as her list of requests says it. */
const becauseOf = ({ because }: PendingItem): string[] => [
  sent('GET /owner/pending  (signed with her device key)'),
  got(`200 because ${because.join(', ')}`),
]

async function eachTrade(scene: Scene): Promise<string[]> {
  await grantFor(scene, scene, 'portfolio_read')
  const waiting = await tradeForHer(scene, tradeOf(1))
  const { family, because } = waiting.item
  expectEqual('Her tier asks about each.', because, ['baseline:ask_me'])
  const answer = await approve(scene, waiting)
  return [
    note('she let this agent in, so that it reads without asking her; a trade is another thing'),
    callOf(waiting.trade),
    got(`401; terms signed with the operation; 403 request_submitted, kind=operation: family ${family}`),
    decisionOf(family, 'approved'),
    got(`200 "${answer}"`),
  ]
}

async function addition(scene: Scene): Promise<string[]> {
  const { stack, owner, handle } = scene
  const file = await writeAllowance(stack, Date.now())
  const command = ['owner', 'allowance', 'add', file, '--yes']
  const { out, err } = await usher(stack, command)
  const opening = `${TIER} opens at once to `
  expectThat(
    'She reads to whom it opens what.',
    err.some(line => line.startsWith(opening) && line.includes(shortName(handle))),
    err,
  )
  await expectUse(scene, 'Nothing is used.', { used: '0', left: '16' })
  const tiers = await owner.policies()
  const { rules } = present(
    'She has the tier.',
    tiers.find(({ id }) => id === TIER),
  )
  expectEqual('A rule lets agents through, and the allowance takes back what is beyond it.', rules, [
    { when: ['standing.approved_at_tier'], then: 'auto' },
    { when: [`operation.beyond:${ALLOWANCE}`], then: 'ask' },
  ])
  return [sent(`usher ${command.join(' ')}`), ...err.filter(line => line !== '').map(note), ...out.map(got)]
}

async function threeTrades(scene: Scene): Promise<string[]> {
  const lines: string[] = []
  for (let count = 0; count < 3; count++) {
    const trade = tradeOf(4)
    const answer = await tradeAtOnce(scene, trade)
    lines.push(callOf(trade), got(`401; terms signed with the operation; granted at once; 200 "${answer}"`))
  }
  await expectUse(scene, 'Each took its part of the day.', { used: '12', left: '4' })
  return [...lines, ...(await listOf(scene.stack))]
}

async function fourthTrade(scene: Scene): Promise<string[]> {
  const waiting = await tradeForHer(scene, tradeOf(5))
  const { item, trade } = waiting
  expectLimit(item, 'window:qty:day')
  const card = await cardOf(scene.stack, item)
  const answer = await approve(scene, waiting)
  await expectUse(scene, 'What she approves herself takes nothing from it.', { used: '12', left: '4' })
  return [
    callOf(trade),
    got('401; 403 request_submitted, kind=operation'),
    ...card,
    decisionOf(item.family, 'approved'),
    got(`200 "${answer}"`),
    note('12 of 16 are used as before: what she approves herself takes nothing from the allowance'),
  ]
}

async function otherTrades(scene: Scene): Promise<string[]> {
  const lines: string[] = []
  const { payee } = tradeOf(1)
  for (const [trade, limit] of [
    [tradeOf(6), 'each_max:qty'],
    [tradeOf(4, `${payee} `), 'only:/payee'],
  ] as const) {
    const waiting = await tradeForHer(scene, trade)
    expectLimit(waiting.item, limit)
    lines.push(callOf(trade), ...(await cardOf(scene.stack, waiting.item)))
    const sentence = await deny(scene, waiting)
    lines.push(decisionOf(waiting.item.family, 'denied'), got(`403 request_denied: ${sentence}`))
  }
  await expectUse(scene, 'Neither took anything.', { used: '12', left: '4' })
  return lines
}

async function otherAgent(scene: Scene): Promise<string[]> {
  const other = scene.newAgent()
  scene.memory.other = other
  await grantFor(scene, other, 'portfolio_read')
  const waiting = await tradeForHer(scene, tradeOf(1), other)
  const { item, trade } = waiting
  expectEqual('It is within the allowance, and she approved no trade of this agent.', item.because, [
    'baseline:ask_me',
  ])
  expectEqual('The request names the tier that her approval opens.', item.opens, [TIER])
  const card = await cardOf(scene.stack, item)
  const answer = await approve(scene, waiting)
  return [
    callOf(trade),
    got('401; 403 request_submitted, kind=operation'),
    ...card,
    decisionOf(item.family, 'approved'),
    got(`200 "${answer}"; with "only":true it would have opened nothing`),
  ]
}

async function lastOfDay(scene: Scene): Promise<string[]> {
  const agents = [scene, present('She knows another agent.', scene.memory.other)]
  const both = await Promise.all(agents.map(agent => startTrade(agent, tradeOf(4))))
  const [passes, ...more] = both.filter(({ family }) => family === undefined)
  expectEqual('One of them is granted at once, and no other.', [passes?.trade, more], [tradeOf(4), []])
  const answer = await expectPlaced(present('One is granted.', passes))
  const asks = both.find(({ family }) => family !== undefined)
  const waiting = await waitingTrade(scene, present('The other waits.', asks))
  expectLimit(waiting.item, 'window:qty:day')
  await deny(scene, waiting)
  await expectUse(scene, 'The day is used up, and no more than that.', { used: '16', left: '0' })
  return [
    callOf(tradeOf(4)),
    note('the same at the same moment, by the other agent'),
    got(`granted at once to one of them; 200 "${answer}"`),
    got('403 request_submitted, kind=operation, to the other'),
    ...becauseOf(waiting.item),
    note('16 of 16 are used, and nothing is left'),
  ]
}

async function midnight(scene: Scene): Promise<string[]> {
  const before = await expectUse(scene, 'Nothing is left of the day.', { used: '16', left: '0' })
  await endDay(scene)
  const after = await expectUse(scene, 'All of the day is left.', { used: '0', left: '16' })
  expectEqual('It is the day that the clock of the database tells.', after.starts, before.starts)
  const trade = tradeOf(4)
  const answer = await tradeAtOnce(scene, trade)
  await expectUse(scene, 'The trade is counted in it.', { used: '4', left: '12' })
  expectEqual('The day before stays as it was counted.', await usedByDay(scene), ['16', '4'])
  return [
    note('no setting moves the clock by which her days begin, and the story does not wait for a midnight:'),
    note('in Postgres it moves what was counted a day back, as if midnight had passed since'),
    sent(DAY_BACK.replace(/ RETURNING of$/, '').replace(/\s+/g, ' ')),
    callOf(trade),
    got(`401; terms signed with the operation; granted at once; 200 "${answer}"`),
    ...(await listOf(scene.stack)),
  ]
}

async function ending(scene: Scene): Promise<string[]> {
  const command = ['owner', 'allowance', 'end', ALLOWANCE, '--yes']
  const { out } = await usher(scene.stack, command)
  const waiting = await tradeForHer(scene, tradeOf(1))
  expectLimit(waiting.item, 'until')
  await deny(scene, waiting)
  return [
    sent(`usher ${command.join(' ')}`),
    ...out.map(got),
    callOf(waiting.trade),
    got('401; 403 request_submitted, kind=operation'),
    ...becauseOf(waiting.item),
  ]
}

async function ledger(scene: Scene): Promise<string[]> {
  const { owner } = scene
  const changes = await readAll(owner.ledger({ kind: 'allowance_changed' }))
  expectEqual(
    'It tells when she made the allowance, and when she ended it.',
    changes.map(({ allowance, version }) => [allowance, version]),
    [
      [ALLOWANCE, 1],
      [ALLOWANCE, 2],
    ],
  )
  const relaxed = await readAll(owner.ledger({ kind: 'relaxed' }))
  expectEqual(
    'Each trade about which nobody asked her is there, with what it took.',
    relaxed.map(({ allowance }) => allowance),
    Array.from({ length: 5 }, () => ({ id: ALLOWANCE, version: 1, amounts: { qty: '4' } })),
  )
  expectEqual(
    'These trades were placed, and no other.',
    executions(scene, 'place_trade'),
    [1, 4, 4, 4, 5, 1, 4, 4].map(qty => tradeOf(qty)),
  )
  return [
    sent('GET /owner/ledger?kind=allowance_changed'),
    got(`200 ${ALLOWANCE}, versions 1 and 2`),
    sent('GET /owner/ledger?kind=relaxed'),
    ...relaxed.map(({ handle = '', allowance }) =>
      got(`${shortName(handle)} was let through: ${JSON.stringify(allowance)}`),
    ),
  ]
}
