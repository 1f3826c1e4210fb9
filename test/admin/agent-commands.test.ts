/**
 * Agents of a member from an administrator's command line, against a real organization and the real authority
 * of the member. Contract: "The organization's authority" (`/admin/...`), "Organization membership, on the
 * member's authorization server".
 */
import { describe, expect, it } from 'vitest'
import { adminCommand } from '../support/admin-command.ts'
import { startMembershipStand } from '../support/membership.ts'
import * as seed from '../support/seed.ts'
import { startedOnce } from '../support/started.ts'
import { testAgent } from '../support/test-agent.ts'

const stand = startedOnce(async () => {
  const started = await startMembershipStand()
  const { status, text } = await started.joined()
  if (status !== 200) throw new Error(text)
  return started
})
const { admin } = adminCommand(() => stand.issuer, stand)

describe('usher admin pending', () => {
  it('lists and shows what waits, escaped, and approves or denies it', async () => {
    expect((await admin('pending', 'list', 'alice')).printed).toBe('Nothing waits.\n')
    const agent = testAgent(stand.authority)
    await agent.ask('portfolio_read', { reason: 'due \u001b[2Jtoday' })
    const waiting = JSON.parse((await admin('--json', 'pending', 'list', 'alice')).printed) as [
      { family: string },
    ]
    const { family } = waiting[0]
    expect((await admin('pending', 'list', 'alice')).printed).toContain(family)
    const shown = (await admin('pending', 'show', 'alice', family)).printed
    expect(shown).toContain(`usher admin pending approve alice ${family}\n`)
    expect(shown).not.toContain('\u001b')
    const [facts, words] = shown.split(
      "\nIn the agent's own words as her server shows them, which nobody has checked:\n",
    )
    expect(facts).not.toContain('says why')
    expect(words).toContain('says why')
    const approved = await admin('pending', 'approve', 'alice', family)
    expect(approved).toEqual({ code: 0, printed: `${family} is approved.\n`, said: '' })
    const late = await admin('pending', 'deny', 'alice', family)
    expect(late).toMatchObject({
      code: 1,
      said: expect.stringMatching(/^conflict: This was approved already/),
    })
    expect((await admin('pending', 'show', 'alice', family)).code).toBe(2)
  })
})

describe('usher admin connections and operators', () => {
  it('list who reaches what the organization governs, end that, and give it back', async () => {
    const agent = testAgent(stand.authority)
    const { db, pool } = stand.authority.database
    const origin = 'https://bots.example'
    await seed.seedConnection(db, stand.alice.owner, agent.handle, { operator: origin })
    await pool.query('INSERT INTO operators (owner, origin) VALUES ($1, $2)', ['alice', origin])
    await agent.granted()
    for (const [noun, one, acts] of [
      ['connections', agent.handle, ['revoke', 'restore']],
      ['operators', origin, ['block', 'unblock']],
    ] as const) {
      expect((await admin(noun, 'list', 'alice')).printed).toContain(one.slice(0, 12))
      for (const word of acts)
        expect(await admin(noun, word, 'alice', one)).toMatchObject({ code: 0, said: '' })
      const unknown = await admin(noun, acts[0], 'alice', 'https://nobody.example')
      expect(unknown).toMatchObject({ code: 1, said: expect.stringMatching(/^not_found: /) })
    }
  })
})

describe('usher admin ledger', () => {
  it('tells what happened at a member to what the organization governs, and by whom', async () => {
    const agent = testAgent(stand.authority)
    await agent.granted('portfolio_read')
    const own = testAgent(stand.authority)
    await own.granted('statement_read')
    await admin('connections', 'revoke', 'alice', agent.handle)
    const { code, printed } = await admin('ledger', 'alice')
    expect(code).toBe(0)
    expect(printed).toMatch(new RegExp(`promised \\S+ +alice/portfolio +- +${agent.handle}`))
    expect(printed).toMatch(new RegExp(`org_acted \\S+ .*${agent.handle} +ines`))
    expect(printed).not.toContain(own.handle)
    const entries = JSON.parse((await admin('--json', 'ledger', 'alice')).printed) as { seq: number }[]
    const after = String(entries.at(-2)!.seq)
    const rest = await admin('--json', 'ledger', 'alice', '--after', after, '--limit', '5')
    expect(JSON.parse(rest.printed)).toEqual(entries.slice(-1))
    expect((await admin('ledger', 'alice', '--after', String(entries.at(-1)!.seq))).printed).toBe(
      'Nothing happened to what the organization governs.\n',
    )
    expect(await admin('ledger', 'nobody')).toMatchObject({
      code: 1,
      said: expect.stringMatching(/^not_found: /),
    })
  })
})
