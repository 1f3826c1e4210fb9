/**
 * What a person reads of one request at her terminal: contract, "Owner API" (a surface shows what is in the
 * item), "Agreement (claim_token, beat 3)" (the agent's own words are its claim, and only what it signed).
 */
import { beforeEach, describe, expect, it } from 'vitest'
import { openClaimToken, signAgreement } from '../../src/wire/negotiation/agreement.ts'
import { itemDigest, type DecisionItem } from '../../src/wire/owner/decision-item.ts'
import { s256 } from '../../src/wire/encoding.ts'
import { thumbprintHandle } from '../../src/wire/agents/handles.ts'
import { ITEM } from '../support/decision-samples.ts'
import { ownerCommand } from '../support/owner-command.ts'
import { localTime } from '../../src/terminal/printable.ts'
import { agreementContent, newKey } from '../support/wire-samples.ts'

const { answers, api, owner, ownerAt } = ownerCommand()
const [agent, stranger] = [newKey(), newKey()]
const compactOf = (content: Parameters<typeof agreementContent>[0], key = agent): string =>
  openClaimToken(signAgreement(agreementContent(content), key)).compact
const signed = compactOf({
  reason: 'To plan\n\u001b]0;x\u0007your day',
  mission: { approver: 'https://boss.example\u202e', s256: 'm'.repeat(43) },
})

const GOES_ON =
  'At trading a rule asks you about the first grant: after this one it may go on there without asking you, unless another rule asks.'
const LATER = 'A tier that is added later and does not ask you is open to it, too.'

/** As the authority lists it; what stands beside the item says something else. */
function listed(changes: Partial<DecisionItem> = {}, agreement = signed) {
  const item: DecisionItem = {
    ...ITEM,
    agent: { handle: thumbprintHandle(agent), jkt: agent.thumbprint, identity: 'pseudonymous' },
    agreement_s256: s256(agreement),
    ...changes,
  }
  const beside = {
    family: item.family,
    kind: 'operation',
    tier: 'LISTED',
    tier_name: 'LISTED',
    resource_id: 'LISTED',
    purpose: 'LISTED',
    operation: { tool: 'LISTED', params: {} },
    reason: 'LISTED',
    mission: { approver: 'LISTED', s256: 'LISTED' },
    prohibited: ['LISTED'],
    enforced: { scope: ['LISTED'] },
    identity: { kind: 'identified', client_id: 'LISTED', signature_agent: 'LISTED', operator: 'LISTED' },
    handle: 'LISTED',
    assurance: { binding: 9, provenance: 9, accountability: 9 },
    assurance_notes: ['LISTED'],
    because: ['LISTED'],
    opens: ['LISTED'],
    expires_in: 999_999,
    requested_at: '2001-01-01T00:00:00.000Z',
  }
  return { ...beside, item, item_s256: itemDigest(item) }
}

function waits(changes: Partial<DecisionItem> = {}, agreement_jws = signed): void {
  const request = listed(changes, agreement_jws)
  answers['/owner/pending'] = { body: [request] }
  answers[`/owner/pending/${ITEM.family}`] = { body: { ...request, agreement_jws } }
}

const printedOf = async (): Promise<string> => (await owner('pending', ITEM.family)).printed

beforeEach(() => waits())

describe('One request at a terminal', () => {
  it('is shown from the item alone, whatever is listed beside it, in the table as well', async () => {
    const printed = await printedOf()
    expect(printed).toContain('place_trade {"qty":5,"symbol":"VTI"}')
    for (const said of ['bea/trading', 'Trade as told', 'resale', 'compensatable', agent.thumbprint])
      expect(printed).toContain(said)
    expect(printed).toMatch(/^lasts +for one call, within 5 minutes$/m)
    expect(printed).toMatch(/^since +2026-/m)
    const table = (await owner('pending')).printed
    expect(table).toContain('bea/trading')
    for (const text of [printed, table]) expect(text).not.toMatch(/LISTED|999999|2001-01-01/)
  })

  it('is told in sentences first: who asks for what, who vouches, what it promises, what else it opens', async () => {
    const short = `jkt:${agent.thumbprint.slice(0, 8)}`
    const told = (printed: string): string => printed.split('\n\n')[0]!.replaceAll('\n', ' ')
    expect(told(await printedOf())).toBe(
      `Agent ${short} asks to use place_trade of "bea/trading" once within 5 minutes, with exactly the parameters below. ` +
        'Nobody vouches for it. It promises to keep from resale; usher cannot check that. Approving opens nothing else.',
    )
    const {
      operation: _call,
      params_s256: _digest,
      agent: _agent,
      agreement_s256: _agreed,
      ...standing
    } = ITEM
    const read: Partial<DecisionItem> = {
      ...standing,
      kind: 'connection',
      scopes: ['read'],
      single_use: false,
      expires_in: 3_600,
      opens: ['reading', 'statements'],
      terms: { ...ITEM.terms, prohibited: [] },
      operator: { origin: 'https://op.example\u202e', attested: false },
    }
    // Left out of what is listed, too.
    const { operation: _none, params_s256: _nothing, ...item } = listed(read).item
    const request = { ...listed(read), item, item_s256: itemDigest(item) }
    answers['/owner/pending'] = { body: [request] }
    expect(told(await printedOf())).toBe(
      `A new agent, ${short}, asks to read "bea/trading" for 1 hour. Nobody vouches for it. ` +
        'It says that https://op.example\\u{202e} runs it; nobody there confirms that. It promises nothing more. ' +
        'Approving also opens, without asking you again: reading, statements. ' +
        LATER,
    )
    const openedBy = async (opens: string[]): Promise<string> => {
      answers['/owner/pending'] = { body: [listed({ ...read, opens })] }
      return told(await printedOf()).replace(/.*nothing more\. /, '')
    }
    expect(await openedBy([ITEM.tier])).toBe(
      'Approving lets it do this again without asking you. ' +
        `As your tiers are now, it can do nothing else without asking you. ${LATER}`,
    )
    expect(await openedBy([ITEM.tier, 'statements'])).toBe(
      `Approving lets it do this again without asking you, and also opens, without asking you: statements. ${LATER}`,
    )
  })

  it('of a first contact never promises that nothing opens later', async () => {
    waits({ kind: 'connection', because: ['first_contact'], opens: [] })
    const printed = await printedOf()
    const told = printed.split('\n\n')[0]!.replaceAll('\n', ' ')
    expect(told).toContain(`As your tiers are now, it can do nothing else without asking you. ${LATER}`)
    expect(printed).toMatch(
      /^approving opens +nothing now: .*; later, tiers that are added and do not ask you; for one tier alone: --only$/m,
    )
    waits({ kind: 'connection', because: ['first_contact'], opens: ['reading'] })
    expect((await owner('pending')).printed).toContain(
      '; opens reading unasked, and later tiers that do not ask',
    )
  })

  it('about an operation says that approving opens the tier, or that it may be open already', async () => {
    const said = async (because: string[]): Promise<string[]> => {
      waits({ opens: [ITEM.tier], because })
      const printed = await printedOf()
      const told = printed.split('\n\n')[0]!.replaceAll('\n', ' ')
      return [told.replace(/.*cannot check that\. /, ''), /^approving opens +(.*)$/m.exec(printed)![1]!]
    }
    expect(await said(['baseline:ask_me', 'ask:operation.beyond:weekend'])).toEqual([
      'Approving also opens trading to it: what your rules and allowance there let through, it may then do without asking you.',
      'trading, as far as your rules and allowance there go; this call alone: --only',
    ])
    expect((await owner('pending')).printed).toContain('; opens trading unasked')
    const rule = 'auto:standing.never_revoked+standing.approved_at_tier'
    expect(await said(['baseline:ask_me', rule, 'ask:operation.beyond:weekend'])).toEqual([
      'Approving opens nothing more than trading, which may be open to it already: what your rules and allowance there let through, it may then do without asking you.',
      'nothing more than trading, which may be open to it already, as far as your rules and allowance there go; this call alone: --only',
    ])
    expect((await owner('pending')).printed).not.toContain('unasked')
  })

  it.each<[string[], string]>([
    [['baseline:auto', 'ask:standing.first_at_tier'], `Approving opens no other tier. ${GOES_ON}`],
    [
      ['baseline:ask_me', 'auto:standing.never_revoked', 'ask:standing.first_at_tier'],
      `Approving opens no other tier. ${GOES_ON}`,
    ],
    [['baseline:ask_me', 'ask:standing.first_at_tier'], 'Approving opens nothing else.'],
  ])('about an operation that is asked about because of %j says how it goes on', async (because, says) => {
    waits({ opens: [], because })
    const told = (await printedOf()).split('\n\n')[0]!.replaceAll('\n', ' ')
    expect(told.replace(/.*cannot check that\. /, '')).toBe(says)
  })

  it('names the resource as its server does, with the id beside it, which nothing in a name can pass for', async () => {
    const known = (name: string) => (answers['/owner/resources'] = { body: [{ _id: 'bea/trading', name }] })
    known('Trades')
    const printed = await printedOf()
    expect(printed.replaceAll('\n', ' ')).toContain('asks to use place_trade of "Trades" (bea/trading) once')
    expect(printed).toMatch(/^resource +"Trades" \(bea\/trading\)$/m)
    expect((await ownerAt(200, 'pending')).printed).toContain('"Trades" (bea/trading)')
    const wide = (await owner('pending')).printed
    expect(wide).toContain('RESOURCE NAME')
    expect(wide).not.toContain('(bea/trading)')
    known('Notes" (bea/notes) or "Trades\u202e')
    expect(await printedOf()).toMatch(
      /^resource +"Notes' \(bea\/notes\) or 'Trades\\u\{202e\}" \(bea\/trading\)$/m,
    )
    known('bea/trading')
    expect(await printedOf()).toMatch(/^resource +bea\/trading$/m)
  })

  it('has no level of assurance that nobody knows, but who vouches', async () => {
    expect(await printedOf()).toMatch(/^vouched for +by nobody$/m)
    waits({ assurance: { binding: 1, provenance: 1, accountability: 2 } })
    const printed = await printedOf()
    expect(printed).toMatch(/^vouched for +by its issuer, by its operator, who lists its key$/m)
    expect(printed).not.toMatch(/binding|provenance|accountability/)
    expect(printed).toContain(`since        ${localTime(ITEM.requested_at)}\n`)
  })

  it('says whether its operator lists its key, and who else has a say', async () => {
    const organization = {
      issuer: 'https://org.example',
      org: 'acme',
      name: 'Acme\u202e',
      effect: 'ask',
      because: ['always_ask'],
    }
    waits({ operator: { origin: 'https://op.example', attested: true }, organization })
    const printed = await printedOf()
    expect(printed).toMatch(/^operator +https:\/\/op\.example \(lists the key of this agent as its own\)$/m)
    expect(printed).toMatch(
      /^organization +Acme\\u\{202e\} \(acme at https:\/\/org\.example\) says ask: always_ask$/m,
    )
    waits({ operator: { origin: 'https://op.example', attested: false } })
    expect(await printedOf()).toMatch(/named by the agent, and does not confirm it/)
    waits()
    expect(await printedOf()).toMatch(/^operator +none named$/m)
  })

  it('says of a call that nobody knows what it leads to', async () => {
    waits()
    const { consequence: _none, ...item } = listed().item
    const request = { ...listed(), item, item_s256: itemDigest(item) }
    answers['/owner/pending'] = { body: [request] }
    expect(await printedOf()).toMatch(/^consequence +nobody says what it leads to$/m)
  })

  it('is for a script the record as the authority gave it', async () => {
    const { printed } = await owner('--json', 'pending', ITEM.family)
    expect(JSON.parse(printed)).toEqual(listed())
    expect(api.received).toHaveLength(1)
  })
})

describe('The own words of an agent', () => {
  it('stand below the facts, as its claim, escaped', async () => {
    const printed = await printedOf()
    const [facts, words] = printed.split("In the agent's own words, which nobody has checked:\n")
    expect(facts).not.toMatch(/plan|boss/)
    expect(words).toMatch(/^ {2}says why +To plan\\u\{a\}\\u\{1b\}\]0;x\\u\{7\}your day$/m)
    expect(words).toMatch(/^ {2}mission approved by +https:\/\/boss\.example\\u\{202e\}$/m)
    // oxlint-disable-next-line no-control-regex -- looking for them is the purpose
    expect(printed).not.toMatch(/[\u001b\u0007\u202e]/)
  })

  it('have what the client of the agent calls itself, as its claim', async () => {
    waits({}, compactOf({ client_name: 'Claude Code\u202e' }))
    const [facts, words] = (await printedOf()).split("In the agent's own words, which nobody has checked:\n")
    expect(facts).not.toContain('Claude')
    expect(words).toMatch(/^ {2}calls itself +Claude Code\\u\{202e\}$/m)
  })

  it('name it in the list of what waits, under a heading that says whose word that is', async () => {
    waits({}, compactOf({ client_name: 'Claude Code\u202e' }))
    const { printed } = await owner('pending')
    expect(printed).toContain('CALLS ITSELF')
    expect(printed).toContain('Claude Code\\u{202e}')
    waits({ agreement_s256: s256('another') }, compactOf({ client_name: 'Claude Code' }))
    expect((await owner('pending')).printed).not.toMatch(/CALLS ITSELF|Claude/)
    waits({}, compactOf({}))
    expect((await owner('pending')).printed).not.toContain('CALLS ITSELF')
  })

  it('are said to be none if it gave none', async () => {
    waits({}, compactOf({}))
    expect(await printedOf()).toContain('The agent says nothing in its own words.')
  })

  it.each<[string, () => void]>([
    ['another key signed them', () => waits({}, compactOf({ reason: 'Forged' }, stranger))],
    ['the item names another agreement', () => waits({ agreement_s256: s256('another') })],
    [
      'they were exchanged under the signature',
      () => {
        const [header, , signature] = signed.split('.')
        const payload = Buffer.from(JSON.stringify({ reason: 'Forged' })).toString('base64url')
        waits({}, `${header}.${payload}.${signature}`)
      },
    ],
    ['they are no agreement', () => waits({}, 'Forged')],
  ])('are not shown where %s', async (_what, forge) => {
    forge()
    const printed = await printedOf()
    expect(printed).toContain('The authority gave other words than this agent signed.')
    expect(printed).not.toMatch(/Forged|To plan/)
  })

  it('are not shown if the authority does not give what was signed', async () => {
    delete answers[`/owner/pending/${ITEM.family}`]
    const { code, printed } = await owner('pending', ITEM.family)
    expect(code).toBe(0)
    expect(printed).toContain('its own words are not shown')
    expect(printed).not.toMatch(/To plan|LISTED/)
  })
})
