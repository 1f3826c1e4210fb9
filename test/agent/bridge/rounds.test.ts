/**
 * contract, "Agreement (claim_token, beat 3)": the answers that a client of MCP 2026-07-28 brings back are
 * for whoever asked. What a person says about the owner's terms or card never reaches the tool's server. The
 * authority and the resource are scripted.
 */
import { createRequestStateCodec } from '@modelcontextprotocol/server'
import type { Client } from '@modelcontextprotocol/client'
import { beforeEach, describe, expect, it } from 'vitest'
import { createConversations, QUESTION } from '../../../src/agent/bridge/questions/conversations.ts'
import { roundIn } from '../../../src/agent/bridge/questions/round-state.ts'
import { DEFAULT_SPEC_NS } from '../../../src/wire/names.ts'
import { needInfo } from '../../../src/wire/negotiation/negotiation.ts'
import type { TermsTemplate } from '../../../src/wire/negotiation/terms.ts'
import { newTicket } from '../../../src/wire/negotiation/ticket.ts'
import { filesIn, type BridgedClient } from '../../support/bridge.ts'
import { TOOL, useScriptedBridge } from '../../support/scripted-bridge.ts'

interface Round {
  requestState?: string
  inputRequests?: Record<string, unknown>
  content?: { text: string }[]
}
const DONE = { content: [{ type: 'text', text: 'done' }] }
const ACCEPTED = { action: 'accept', content: { usher_answer: 'accept' } }
const CONSOLE = ['--owner-console', 'https://console.example/']

const stand = useScriptedBridge()
beforeEach(() => void (stand.answers = (_call, signed) => (signed ? DONE : undefined)))

/** Terms for each new ticket, also while another request waits, for which the scripted authority has none. */
function offersToEach(): void {
  const begun = new Set<string>()
  let template: TermsTemplate | undefined
  stand.peers.twists.challenge = plain => {
    begun.add(plain.ticket)
    return plain
  }
  stand.peers.twists.template = plain => (template = plain)
  stand.peers.authority.script('/token', ({ form }) => {
    if (template === undefined || !begun.has(form.get('ticket')!) || form.has('claim_token')) return undefined
    const { ticket } = newTicket('tag')
    return { status: 403, body: needInfo({ specNs: DEFAULT_SPEC_NS, ticket, template }) }
  })
}

const started = (elicitation: object, ...args: string[]): Promise<BridgedClient> =>
  stand.start({ kind: '2.x 2026-07-28', capabilities: { elicitation }, args })

/** One round, as it is answered: the questions are for the test. */
function round(qty: number, brought: object = {}): Promise<Round> {
  const schema = {
    '~standard': { version: 1 as const, vendor: 't', validate: (value: unknown) => ({ value }) },
  }
  const request = { method: 'tools/call', params: { name: TOOL, arguments: { qty }, ...brought } }
  const options = { allowInputRequired: true } as const
  return (stand.client.client as Client).request(request, schema, options) as Promise<Round>
}

/** The state as another key seals it, or with another life; what goes before the codec's own text stays. */
async function resealed(state: string, change: { key?: Buffer; ttlSeconds?: number }): Promise<string> {
  const at = state.indexOf('v1.')
  const sealed = Buffer.from(state.slice(at).split('.')[1]!, 'base64url').toString()
  const files = await filesIn(stand.folder)
  const key = Buffer.from(files.find(({ path }) => path.endsWith('/secret'))!.text, 'hex')
  const codec = createRequestStateCodec({ key, ttlSeconds: 3600, ...change })
  return `${state.slice(0, at)}${await codec.mint((JSON.parse(sealed) as { p: object }).p)}`
}

const OVER: [string, (state: string) => Promise<string> | string][] = [
  ['after an hour', state => resealed(state, { ttlSeconds: -1 })],
  ['of another secret', state => resealed(state, { key: Buffer.alloc(32, 1) })],
  ['whose tag was changed', state => `${state.slice(0, -2)}${state.endsWith('AA') ? 'BB' : 'AA'}`],
]

describe('A state of ours that is over', () => {
  it.each(OVER)('is not sent to the tool, nor the answer that came with it: one %s', async (_which, over) => {
    stand.terms(false)
    await started({ form: {} }, '--hold', '5')
    const asked = await round(2)
    expect(asked).toMatchObject({ inputRequests: { terms: {} } })
    const requestState = await over(asked.requestState!)
    const brought = { requestState, inputResponses: { terms: ACCEPTED } }
    // It is no agreement either: she is asked again.
    expect(await round(2, brought)).toMatchObject({ inputRequests: { terms: {} } })
    expect(stand.peers.agreements).toEqual([])
    await stand.client.call(TOOL, { qty: 1 })
    expect((await round(2, brought)).content).toEqual(DONE.content)
    expect(stand.sent.map(({ arguments: of }) => of)).toEqual([{ qty: 1 }, { qty: 2 }])
    for (const one of stand.sent) expect(one).not.toHaveProperty('inputResponses')
    for (const one of stand.sent) expect(one).not.toHaveProperty('requestState')
  })

  it('about a question in the middle of a call is told as unknown, so that the call is not made twice', async () => {
    stand.terms(false)
    await started({ form: {} })
    const of = (fill: number, state?: string) =>
      roundIn({ secret: Buffer.alloc(32, fill), call: {} }, {
        mcpReq: { requestState: () => state },
      } as never)
    const state = await (await of(1)).seal(`${QUESTION}one`)
    expect((await of(1, state)).about).toBe(`${QUESTION}one`)
    const { about } = await of(2, state)
    await expect(createConversations().goOn(about!, {}, { about: {} } as never)).rejects.toMatchObject({
      code: 'outcome_unknown',
    })
  })
})

describe("A person's answer to the card of one call", () => {
  it('takes no other call back, and takes its own back', async () => {
    stand.terms(true)
    stand.peers.twists.owner = { polls: 1000, kind: 'operation', interval: 1 }
    offersToEach()
    await started({ form: {}, url: {} }, ...CONSOLE, '--hold', '3')
    const { requestState } = await round(1)
    const one = await round(1, { requestState, inputResponses: { terms: ACCEPTED } })
    expect(one).toMatchObject({ inputRequests: { owner: {} } })
    const declined = { requestState: one.requestState!, inputResponses: { owner: { action: 'decline' } } }
    // She is shown the other call's own card.
    expect(await round(2, declined)).toMatchObject({ inputRequests: { owner: {} } })
    const taken = () => stand.peers.tokenForms().filter(({ decline }) => decline === 'true').length
    expect(taken()).toBe(0)
    expect((await round(1, declined)).content).toHaveLength(1)
    expect(taken()).toBe(1)
  })
})

/** A tool that asks back in MCP 2026-07-28: its first answer, and what it needs in the second round. */
const ASKS = {
  resultType: 'input_required',
  requestState: 'of the tool',
  inputRequests: {
    which: {
      method: 'elicitation/create',
      params: {
        mode: 'form',
        message: 'Which?',
        requestedSchema: { type: 'object', properties: { account: { type: 'string' } } },
      },
    },
  },
}
const SECOND = {
  requestState: 'of the tool',
  inputResponses: { which: { action: 'accept', content: { account: 'joint' } } },
}

describe('A tool that asks back', () => {
  it.each<[string, boolean, string[], object]>([
    ["by a link to the owner's card", true, CONSOLE, { form: {}, url: {} }],
    ['by a form for the terms', false, [], { form: {} }],
  ])('has its own state and answers, when we ask in between %s', async (_how, perOperation, args, can) => {
    stand.terms(perOperation)
    if (perOperation) stand.peers.twists.owner = { polls: 1, kind: 'operation', interval: 1 }
    stand.answers = ({ requestState }, signed) => {
      if (requestState === undefined) return signed || !perOperation ? ASKS : undefined
      return signed ? DONE : undefined
    }
    const { elicited, call } = await started(can, ...args, '--hold', '20')
    expect((await call(TOOL, { qty: 1 })).text).toBe('done')
    expect(stand.sent.at(-1)).toMatchObject({ requestState: 'of the tool', inputResponses: { which: {} } })
    expect(elicited.filter(({ message }) => message.includes('Which?'))).toHaveLength(1)
  })

  it.each<[string, number, object]>([
    ['has them in the call that she answered', 1, SECOND],
    ['has none of them in another call', 2, {}],
  ])('%s', async (_what, qty, reaches) => {
    stand.terms(false)
    await started({ form: {} }, '--hold', '5')
    const asked = await round(1, SECOND)
    const { requestState } = asked
    const brought = { requestState, inputResponses: { terms: ACCEPTED } }
    expect((await round(qty, brought)).content).toEqual(DONE.content)
    const { requestState: state, inputResponses } = stand.sent.at(-1)!
    expect({ ...(state && { requestState: state }), ...(inputResponses && { inputResponses }) }).toEqual(
      reaches,
    )
  })

  it('is told nothing that is too long to be kept while somebody is asked', async () => {
    stand.terms(false)
    await started({ form: {} }, '--hold', '5')
    const answer = await round(1, { ...SECOND, requestState: 'x'.repeat(1_048_576) })
    expect(answer).toMatchObject({ isError: true, _meta: { 'usher/reason': 'request_invalid' } })
    expect(stand.sent).toEqual([])
  })
})
