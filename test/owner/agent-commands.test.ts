/** `usher owner connections`, `revoke` and `block` (contract, "Owner API": connections, operators). */
import { describe, expect, it } from 'vitest'
import { localTime } from '../../src/terminal/printable.ts'
import { ownerCommand } from '../support/owner-command.ts'
import { signAgreement, verifyAgreement } from '../../src/wire/negotiation/agreement.ts'
import { thumbprintHandle } from '../../src/wire/agents/handles.ts'
import { signReceipt } from '../../src/wire/negotiation/receipt.ts'
import { agreementContent, newKey, receiptClaims } from '../support/wire-samples.ts'

const { answers, api, owner, ownerAt } = ownerCommand()

const AGAIN = 'It may ask you again; `usher owner block` keeps it from that.\n'

describe('revoke', () => {
  it.each([
    [{ rpts_deactivated: 1 }, 'jkt:abc is revoked: 1 live grant ended.\n' + AGAIN],
    [{ rpts_deactivated: 3, connections_revoked: 1 }, 'jkt:abc is revoked: 3 live grants ended.\n' + AGAIN],
    [
      { rpts_deactivated: 1000, rpts_deactivated_more: true, connections_revoked: 2 },
      'jkt:abc is revoked: 1000 or more live grants ended, 2 connections in all.\n' + AGAIN,
    ],
  ])('says what it ended: %j', async (counts, sentence) => {
    answers['/owner/connections/revoke'] = { body: { handle: 'jkt:abc', status: 'revoked', ...counts } }
    expect(await owner('revoke', 'jkt:abc')).toEqual({ code: 0, printed: sentence, said: '' })
    expect(JSON.parse(api.received[0]!.body.toString())).toEqual({ handle: 'jkt:abc' })
  })
})

describe('block and unblock', () => {
  const handle = 'jkt:abcdefghij'

  it('act on an agent, and say what that ended and that it may ask again', async () => {
    const ended = { connections_revoked: 2, rpts_deactivated: 3 }
    answers['/owner/connections/block'] = { body: { handle, blocked: true, ...ended } }
    expect(await owner('block', handle)).toEqual({
      code: 0,
      printed: `${handle} is blocked: 3 live grants ended, 2 connections in all.\n`,
      said: '',
    })
    answers['/owner/connections/unblock'] = {
      body: { handle, blocked: false, connections_revoked: 0, rpts_deactivated: 0 },
    }
    expect((await owner('unblock', handle)).printed).toBe(
      `${handle} may ask you again. That alone gives it no access.\n`,
    )
  })

  it('act on an operator if they are given its origin', async () => {
    const origin = 'https://op.example'
    answers['/owner/operators/block'] = { body: { origin, connections_revoked: 2, rpts_deactivated: 0 } }
    expect((await owner('block', origin)).printed).toContain(`block ${origin}: done. Connections ended: 2.`)
    expect(api.to('/owner/connections/block')).toEqual([])
    answers['/owner/operators/unblock'] = { body: { origin } }
    expect((await owner('unblock', origin)).printed).toBe(`unblock ${origin}: done.\n`)
    expect(JSON.parse(String(api.to('/owner/operators/unblock')[0]!.body))).toEqual({ origin })
  })

  it('finds an agent that only waits by the beginning of its handle', async () => {
    answers['/owner/connections'] = { body: [] }
    answers['/owner/pending'] = { body: [{ family: 'fam_1', handle }] }
    api.script('/owner/connections/block', ({ body }) =>
      String(body).includes(handle)
        ? { body: { handle, blocked: true, connections_revoked: 0, rpts_deactivated: 0 } }
        : { status: 404, body: { error: 'not_found', error_description: 'You know no such agent.' } },
    )
    expect((await owner('block', 'jkt:abcdefgh')).printed).toBe(
      `${handle} is blocked: 0 live grants ended.\n`,
    )
  })
})

describe('the agents she knows', () => {
  const one = {
    handle: `jkt:VWo19Q8H${'x'.repeat(35)}`,
    status: 'active',
    label: null,
    reach: null,
    tiers_approved: ['reading'],
    tiers_granted: ['reading', 'statements'],
    operators: [],
    first_seen: '2026-11-21T09:00:00Z',
    last_access: '2026-11-22T09:00:00Z',
  }

  it('fit 80 columns with nothing cut, by the names that commands take', async () => {
    answers['/owner/connections'] = { body: [one] }
    const { printed, said } = await ownerAt(80, 'connections')
    expect(printed).toBe(
      'HANDLE        STATUS  REACHES                    APPROVED  LAST ACCESS\n' +
        `jkt:VWo19Q8H  active  all tiers, later ones too  reading   ${localTime(one.last_access)}\n`,
    )
    expect(said).toBe('')
    answers['/owner/connections'] = { body: [{ ...one, label: 'Tax bot' }] }
    expect((await ownerAt(80, 'connections')).printed).toContain('Tax bot')
  })

  it('are said to reach all tiers, unless she let them in for one alone', async () => {
    const reaches = async (admits?: 'all' | 'tier') => {
      answers['/owner/connections'] = { body: [{ ...one, admits }] }
      return (await owner('connections')).printed
    }
    for (const admits of ['all', undefined] as const)
      expect(await reaches(admits)).toContain('all tiers, later ones too')
    const alone = await reaches('tier')
    expect(alone).toContain('one tier; asks first at others')
    expect(alone).not.toContain('later ones too')
  })

  it('are said to reach nothing once she ended their access', async () => {
    answers['/owner/connections'] = { body: [{ ...one, status: 'revoked' }] }
    expect((await owner('connections')).printed).toMatch(/ revoked +- +nothing /)
    answers['/owner/connections'] = {
      body: [{ ...one, status: 'revoked', blocked_at: one.first_seen }],
    }
    expect((await owner('connections')).printed).toMatch(/ blocked +- +nothing /)
  })

  it('have what their client called itself when it last agreed, if the agent signed that', async () => {
    const key = newKey()
    const handle = thumbprintHandle(key)
    const agreement = verifyAgreement(signAgreement(agreementContent({ client_name: 'Claude Code' }), key))
    const claims = receiptClaims(key, agreement, { sub: handle })
    const receipt = signReceipt(claims, newKey())
    const { family } = claims
    answers['/owner/connections'] = { body: [{ ...one, handle }] }
    answers['/owner/ledger'] = {
      body: { entries: [{ seq: 1, ts: one.first_seen, family, handle }], next: null },
    }
    answers['/owner/receipts'] = { body: { receipts: [{ seq: 1, family, handle, receipt }], next: null } }
    expect((await owner('connections')).printed).toMatch(/CALLS ITSELF[^]*Claude Code/)
    const stranger = { ...claims, cnf: { jkt: newKey().thumbprint } }
    const forged = { seq: 1, family, handle, receipt: signReceipt(stranger, newKey()) }
    answers['/owner/receipts'] = { body: { receipts: [forged], next: null } }
    expect((await owner('connections')).printed).not.toMatch(/CALLS ITSELF|Claude/)
  })

  it('are told in full to a file or a program', async () => {
    answers['/owner/connections'] = { body: [one] }
    const { printed } = await owner('connections')
    for (const said of [one.handle, 'reading, statements', '2026-11-21 09:00:00Z'])
      expect(printed).toContain(said)
    expect(await ownerAt(80, 'connections', '--wide')).toEqual(await owner('connections'))
  })
})
