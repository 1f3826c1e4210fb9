/** Owns trades that agents ask for at alice's authority, where one allowance bounds what goes unasked. */
import type { Reply, TestAuthority } from './authority.ts'
import { testAgent, type TestAgent } from './test-agent.ts'

const AUTO = { when: ['standing.approved_at_tier'], then: 'auto' }
let ids = 0

export interface AllowanceTrades {
  /** Stores the allowance with these members, in addition to what names the amount `qty`. */
  save: (id: string, members: object) => Promise<void>
  /** A new allowance with these members, which the tier names from now on. @returns its id. */
  allow: (members: object) => Promise<string>
  /** An agent whose trade she approved once. */
  known: (agent?: TestAgent) => Promise<TestAgent>
}

export const trade = (agent: TestAgent, qty: number): Promise<Reply> =>
  agent.ask('place_trade', { operation: { tool: 'place_trade', params: { qty } } })

export const isAsked = ({ body }: Reply): boolean =>
  body.error === 'request_submitted' && body.kind === 'operation'

export function allowanceTrades(authority: TestAuthority): AllowanceTrades {
  const put = async (target: string, json: object): Promise<void> => {
    const reply = await authority.call(authority.alice, { method: 'PUT', target, json })
    if (reply.status >= 300) throw new Error(reply.text)
  }
  const save = (id: string, members: object): Promise<void> => {
    const at = { tools: ['place_trade'], amounts: { qty: { pointer: '/qty' } } }
    const json = { amounts: [{ name: 'qty', each_max: '5' }], tiers: { trading: at }, ...members }
    return put(`/owner/allowances/${id}`, json)
  }
  return {
    save,
    allow: async members => {
      const id = `p-${++ids}`
      await save(id, members)
      const rules = [AUTO, { when: [`operation.beyond:${id}`], then: 'ask' }]
      await put('/owner/policies/trading', { rules })
      return id
    },
    known: async (agent = testAgent(authority)) => {
      await agent.granted('place_trade', { operation: { tool: 'place_trade', params: { qty: 11 } } })
      return agent
    },
  }
}
