/**
 * What a waiting request is compared with: the last call of the same tool that the owner approved. Contract:
 * "Owner API" (pending, ledger, receipts).
 */
import { beforeAll, describe, expect, it } from 'vitest'
import { appendLedgerAll } from '../../src/storage/authority/ledger/ledger.ts'
import { asOwner } from '../../src/wire/identifiers.ts'
import type { WholePendingItem } from '../../src/wire/owner/owner-api.ts'
import { becauseText } from '../../src/rules/words/rule-words.ts'
import { decodeBase64url } from '../../src/wire/encoding.ts'
import { authorityStand } from '../support/stands.ts'
import { decide, testAgent, type TestAgent } from '../support/test-agent.ts'

const authority = authorityStand()

describe('GET /owner/pending/{family}', () => {
  let agent: TestAgent
  const asks = async (qty: number, { by = agent, tool = 'place_trade' } = {}) => {
    const { ticket } = (await by.ask('place_trade', { operation: { tool, params: { qty } } })).body as {
      ticket: string
    }
    return ticket
  }
  /** What it shows of the newest item of the agent. */
  const shown = async (by = agent): Promise<WholePendingItem> => {
    const { body } = await authority.call(authority.alice, { target: '/owner/pending?limit=1000' })
    const { family } = (body as { family: string; handle: string }[]).findLast(
      ({ handle }) => handle === by.handle,
    )!
    const one: { body: unknown } = await authority.call(authority.alice, {
      target: `/owner/pending/${family}`,
    })
    return one.body as WholePendingItem
  }
  const quantityBefore = async (by = agent): Promise<number | null> => {
    const { approved_before } = await shown(by)
    if (approved_before === null) return null
    const payload = decodeBase64url(approved_before.agreement_jws.split('.')[1]!).toString()
    return (JSON.parse(payload) as { operation: { params: { qty: number } } }).operation.params.qty
  }
  /** Approved, and collected. */
  const makes = async (qty: number, more?: Parameters<typeof asks>[1]): Promise<void> => {
    const ticket = await asks(qty, more)
    await decide(authority, agent.handle, 'approved')
    expect((await agent.present(ticket)).status).toBe(200)
  }

  beforeAll(() => {
    agent = testAgent(authority)
  })

  it('says that there is none of an agent that asks for the first time, and that nothing is known of it', async () => {
    await asks(1)
    expect(await shown()).toMatchObject({ approved_before: null, connection: null })
    await decide(authority, agent.handle, 'denied')
    await asks(2)
    expect(await quantityBefore()).toBeNull()
    await decide(authority, agent.handle, 'denied')
  })

  it('answers the last call that she approved and the agent collected, in the words that the agent signed', async () => {
    await makes(3)
    await makes(4)
    // Denied; and approved but never collected.
    await asks(5)
    await decide(authority, agent.handle, 'denied')
    await asks(6)
    await decide(authority, agent.handle, 'approved')
    await asks(7)
    expect(await quantityBefore()).toBe(4)
    expect((await shown()).connection).toMatchObject({ status: 'active', label: null, revocations: 0 })
    await decide(authority, agent.handle, 'denied')
  })

  it('takes no call of another tool, nor of another agent', async () => {
    await makes(8, { tool: 'cancel_trade' })
    await asks(9)
    expect(await quantityBefore()).toBe(4)
    await decide(authority, agent.handle, 'denied')
    const other = testAgent(authority)
    await asks(10, { by: other })
    expect(await quantityBefore(other)).toBeNull()
    await decide(authority, other.handle, 'denied')
  })

  it('finds it behind however many other approvals', async () => {
    const one = { kind: 'approved' as const, handle: agent.handle }
    const data = { of: 'operation', tier: 'reading', resource_id: 'alice/portfolio', by: 'owner' }
    await appendLedgerAll(
      authority.database.db,
      asOwner('alice'),
      Array.from({ length: 250 }, () => ({ ...one, data })),
    )
    await asks(11)
    expect(await quantityBefore()).toBe(4)
  })

  it('says of an agent whose access she ended that she knows it, and never that it is new', async () => {
    const again = testAgent(authority)
    await asks(1, { by: again })
    const first = await shown(again)
    expect(first.because.slice(0, 2)).toEqual(['first_contact', 'baseline:ask_me'])
    expect(becauseText(first)).toContain('you do not know this agent yet')
    await decide(authority, again.handle, 'approved')
    const revoked = { target: '/owner/connections/revoke', json: { handle: again.handle } }
    await authority.call(authority.alice, { method: 'POST', ...revoked })
    await asks(2, { by: again })
    const second = await shown(again)
    expect(second.because.slice(0, 2)).toEqual(['first_contact', 'revoked_before'])
    expect(second.item.because).toEqual(second.because)
    expect(becauseText(second)).toContain('its access was ended; approving lets it in again')
    expect(becauseText(second)).not.toContain('you do not know')
    await decide(authority, again.handle, 'denied')
  })
})
