/**
 * contract, "Permission ticket" and "Errors": what becomes of a request that waits for the owner when her
 * authority cannot be had, and of calls of a tool that needs no grant any more. The authority and the
 * resource are scripted.
 */
import { beforeEach, describe, expect, it } from 'vitest'
import { filesIn, type BridgedClient, type BridgeOptions } from '../../support/bridge.ts'
import { rowsOfLayer } from '../../support/layer.ts'
import { TOOL, useScriptedBridge } from '../../support/scripted-bridge.ts'
import type { Reply } from '../../support/scripted-http.ts'

const stand = useScriptedBridge()

const started = (args: string[], more: Pick<BridgeOptions, 'word'> = {}): Promise<BridgedClient> =>
  stand.start({ capabilities: { elicitation: { form: {} } }, args, ...more })
/** The phases of the requests that are kept. */
async function kept(): Promise<string[]> {
  const files = (await filesIn(stand.folder)).filter(({ path }) => path.includes('/families/'))
  return files.map(({ text }) => (JSON.parse(text) as { phase: { name: string } }).phase.name)
}
const polled = (): number => stand.peers.tokenForms().length

describe('A request that waits for the owner', () => {
  beforeEach(() => {
    stand.terms(true)
    stand.peers.twists.owner = { polls: 1_000, kind: 'operation', interval: 1 }
  })
  /** A call that waits, whose polls are answered by `reply` from then on. */
  const interrupted = async (reply: Reply, ...args: string[]) => {
    let isDown = false
    stand.peers.authority.script('/token', () => (isDown ? reply : undefined))
    const { call } = await started(['--hold', '20', ...args])
    const answer = call(TOOL, { qty: 1 })
    await expect.poll(polled).toBeGreaterThan(2)
    isDown = true
    const said = await answer
    isDown = false
    return { said, call }
  }
  const page = (status: number): Reply => ({
    status,
    headers: { 'content-type': 'text/html', 'retry-after': '0' },
    body: '<h1>Not now</h1>',
  })

  const inJson = (status: number): Reply => ({
    status,
    headers: { 'content-type': 'application/json', 'retry-after': '0' },
    body: '',
  })
  const body = (status: number, said: unknown): Reply => ({ ...inJson(status), body: said })
  const OUTAGES: [string, Reply][] = [
    ...[404, 408, 425, 429, 500, 503, 520].map((status): [string, Reply] => [
      `a page (${status})`,
      page(status),
    ]),
    ['JSON of a gateway (429)', body(429, { message: 'API rate limit exceeded' })],
    ['JSON of a framework (503)', body(503, { status: 503, error: 'Service Unavailable' })],
    ['JSON of a cloud (502)', body(502, { error: { code: 502, message: 'Bad gateway' } })],
    ['nothing, as JSON (500)', inJson(500)],
  ]

  it('carries what the client calls itself, as a claim, of which nothing acts on a terminal', async () => {
    delete stand.peers.twists.owner
    const { call } = await started(['--client-name', `Claude Code\u202e${'x'.repeat(100)}`])
    expect((await call(TOOL, { qty: 1 })).isError).toBe(false)
    expect(stand.peers.agreements.map(({ claims }) => claims['client_name'])).toEqual([
      `Claude Code${'x'.repeat(49)}`,
    ])
  })

  it.each(rowsOfLayer(OUTAGES, ([what]) => /429|a page \(500/.test(what)))(
    'is kept where %s comes in the place of an answer, which is told as an outage',
    async (_what, reply) => {
      const { said, call } = await interrupted(reply)
      expect(said).toMatchObject({ isError: true, reason: 'temporarily_unavailable' })
      expect(said.text).not.toContain('Calling it again changes nothing')
      expect(await kept()).toEqual(['waiting'])
      delete stand.peers.twists.owner
      expect((await call(TOOL, { qty: 1 })).isError).toBe(false)
      // It went on where it was: nobody was asked anew.
      expect(stand.peers.agreements).toHaveLength(1)
    },
  )

  it.each<[string, string, Reply]>([
    ['a page that says nothing of an outage', 'answer_malformed', page(403)],
    ['JSON that is no answer', 'answer_malformed', { body: [] }],
    ['a way to a page for logging in', 'redirect_refused', { status: 302, headers: { location: '/login' } }],
  ])('is kept where %s comes in the place of an answer', async (_what, reason, reply) => {
    const { said, call } = await interrupted(reply)
    expect(said).toMatchObject({ isError: true, reason })
    expect(await kept()).toEqual(['waiting'])
    delete stand.peers.twists.owner
    expect((await call(TOOL, { qty: 1 })).isError).toBe(false)
    expect(stand.peers.agreements).toHaveLength(1)
  })

  /** A request that waits, whose bridge was killed: the next has to read the metadata of the authority. */
  const leftWaiting = async (reply: Reply): Promise<void> => {
    const { call, kill } = await started(['--hold', '20'])
    void call(TOOL, { qty: 1 }).catch(() => undefined)
    await expect.poll(kept).toEqual(['waiting'])
    await kill()
    stand.peers.authority.script(METADATA, () => (isDown ? reply : undefined))
    isDown = true
  }
  const METADATA = '/.well-known/agents-configuration'
  let isDown: boolean

  it.each(rowsOfLayer([403, 404, 408, 425, 500], status => status === 404))(
    'is kept where a page with status %i comes in the place of the metadata of her authority',
    async status => {
      await leftWaiting(page(status))
      const { call } = await started(['--hold', '20'])
      const said = await call(TOOL, { qty: 1 })
      const isSaidToPass = status !== 403 && status !== 404
      expect(said).toMatchObject({
        isError: true,
        reason: isSaidToPass ? 'temporarily_unavailable' : 'unreachable',
      })
      if (status !== 403) expect(said.text).toContain('It is an outage, not a decision.')
      expect(await kept()).toEqual(['waiting'])
      isDown = false
      delete stand.peers.twists.owner
      expect((await call(TOOL, { qty: 1 })).isError).toBe(false)
      expect(stand.peers.agreements).toHaveLength(1)
    },
  )

  it('is not forgotten where nobody comes back, and her authority cannot be asked to take it back', async () => {
    await leftWaiting(page(403))
    await started(['--client-name', 'client', '--linger', '0'])
    const held = async () =>
      (await filesIn(stand.folder)).filter(({ path }) => path.includes('/held/')).length
    await expect.poll(() => stand.peers.authority.to(METADATA).length).toBeGreaterThan(1)
    // It was looked at, and left.
    await expect.poll(held).toBe(0)
    expect(await kept()).toEqual(['waiting'])
  })

  it('and whose caller was told of an outage is declined after --linger, if nobody comes back', async () => {
    const before = () => stand.peers.tokenForms().filter(({ decline }) => decline === 'true')
    await interrupted(page(503), '--linger', '1')
    await expect.poll(kept).toEqual([])
    expect(before()).toHaveLength(1)
  })
})

describe('Calls of a tool that needs no grant by the time that the terms are accepted', () => {
  it('each have the answer to their own call, and each is made once', async () => {
    stand.terms(false)
    const made: object[] = []
    stand.peers.authority.script('/token', ({ form }) => {
      if (!form.has('claim_token')) return undefined
      // Nobody is asked for a grant any more, and the ticket has expired while a person read the terms.
      stand.answers = call => {
        made.push(call.arguments)
        return { content: [{ type: 'text', text: `made ${JSON.stringify(call.arguments)}` }] }
      }
      return { status: 400, body: { error: 'invalid_grant', error_description: 'expired' } }
    })
    const read = Promise.withResolvers<'accept'>()
    const { call, elicited } = await started(['--hold', '20'], { word: () => read.promise })
    const calls = [1, 2, 3].map(qty => call(TOOL, { qty }))
    // All three were challenged before anybody said yes.
    await expect.poll(() => stand.came('tools/call')).toBe(3)
    await expect.poll(() => elicited.length).toBe(1)
    read.resolve('accept')
    expect((await Promise.all(calls)).map(({ text }) => text)).toEqual(
      [1, 2, 3].map(qty => `made {"qty":${qty}}`),
    )
    expect(made.toSorted((a, b) => JSON.stringify(a).localeCompare(JSON.stringify(b)))).toEqual(
      [1, 2, 3].map(qty => ({ qty })),
    )
  })
  it.each([
    ['a person read the terms', false],
    ['the owner was asked', true],
  ])(
    'and that fails without one, once %s, tell of an error only who made that call',
    async (_when, isAsked) => {
      stand.terms(false)
      stand.peers.twists.owner = { polls: 1_000, kind: 'connection', interval: 1 }
      const read = Promise.withResolvers<'accept'>()
      let isOver = false
      stand.peers.authority.script('/token', ({ form }) => {
        if (!(isOver || (!isAsked && form.has('claim_token')))) return undefined
        stand.answers = ({ arguments: args }) => ({
          error: { code: -32_602, message: `wrong: ${JSON.stringify(args)}` },
        })
        return { status: 400, body: { error: 'invalid_grant', error_description: 'expired' } }
      })
      const { call, elicited } = await started(['--hold', '20'], { word: () => read.promise })
      const calls = [1, 2, 3].map(qty => call(TOOL, { qty }).catch((error: Error) => error.message))
      await expect.poll(() => stand.came('tools/call')).toBe(3)
      await expect.poll(() => elicited.length).toBe(1)
      read.resolve('accept')
      if (isAsked) await expect.poll(kept).toEqual(['waiting'])
      isOver = isAsked
      expect(await Promise.all(calls)).toEqual(
        [1, 2, 3].map(qty => expect.stringContaining(`wrong: {"qty":${qty}}`)),
      )
      expect(stand.came('tools/call')).toBe(6)
    },
  )
})
