/**
 * What cannot work is said before anybody decides: contract, "Protection API" (/perm) and "Policy vocabulary
 * and tiers" (an ungoverned resource is denied), where a tool needs what its authority does not know or what
 * the owner's terms do not offer.
 */
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createAuthorityClient } from '../../src/enforcement/authorities/authority-client.ts'
import type { Tool } from '../../src/enforcement/request/routes.ts'
import { watchToolNeeds, type NeedyRoute } from '../../src/enforcement/preflight/tool-needs.ts'
import { createJwksCache } from '../../src/http/outbound/jwks-cache.ts'
import { createOutbound, type Outbound } from '../../src/http/outbound/outbound.ts'
import { asClientId, asOwner } from '../../src/wire/identifiers.ts'
import { startScriptedAuthority, type Script, type ScriptedAuthority } from '../support/scripted-authority.ts'
import { until } from '../support/until.ts'

const CLIENT = 'demo'
let authority: ScriptedAuthority
let outbound: Outbound
let sentences: string[]
let stop: () => void
beforeEach(async () => {
  authority = await startScriptedAuthority()
  outbound = createOutbound({ devLoopback: true })
  sentences = []
  stop = () => undefined
})
afterEach(async () => {
  stop()
  await outbound.close()
  await authority.close()
})

const READ = { tool: 'portfolio_read', resource_id: 'alice/portfolio', scopes: ['read'] }
const SUMMARY = { ...READ, tool: 'portfolio_summary' }
const TRADE = { tool: 'place_trade', resource_id: 'alice/trades', scopes: ['trade', 'read'] }

function routeWith(tools: Tool[], registersItself = false): NeedyRoute {
  const clock = (): number => Date.now()
  const owner = asOwner('alice')
  const client = createAuthorityClient({
    authority: authority.issuer,
    owner,
    resource: 'https://tools.example.com/mcp/alice',
    client_id: asClientId(CLIENT),
    credential: { kind: 'secret', secret: 'shh' },
    pools: { challenges: outbound, grants: outbound },
    keys: createJwksCache({ outbound, clock }),
    clock,
  })
  return {
    owner,
    authority: authority.issuer,
    client,
    registersItself,
    tools: new Map(tools.map(tool => [tool.tool, tool])),
  }
}

/** Looks again every 10 ms at first. */
function watch(...routes: NeedyRoute[]): void {
  const needs = watchToolNeeds(() => routes, { onFault: said => sentences.push(said), firstPauseMs: 10 })
  stop = () => needs.stop()
  needs.begin()
}

/** What the authority answers about a resource; others are known and offered. */
function answersAbout(answers: Record<string, Script>): void {
  authority.script('/perm', ({ body }) => {
    const { resource_id, resource_scopes } = JSON.parse(body) as {
      resource_id: string
      resource_scopes: string[]
    }
    return answers[resource_id] ?? offers(resource_scopes)
  })
}
const offers = (offered_scopes: string[]): Script => ({
  status: 201,
  body: { ticket: 'tag~tkt_one', offered_scopes },
})
const refuses = (error: string, error_description: string): Script => ({
  status: 400,
  body: { error, error_description },
})

describe('A sidecar says once at its start', () => {
  test('that a resource is not registered: the tools, the resource, the client and both settings', async () => {
    answersAbout({ 'alice/portfolio': refuses('invalid_resource_id', 'Register it.') })
    watch(routeWith([READ, SUMMARY, TRADE]))
    await until(() => authority.count('/perm') > 4)
    expect(sentences).toEqual([expect.stringContaining('portfolio_read, portfolio_summary')])
    for (const what of [
      'alice:',
      'alice/portfolio',
      authority.issuer,
      CLIENT,
      'resource_id',
      'UMA_AS_PROVISION',
    ])
      expect(sentences[0]).toContain(what)
    expect(sentences[0]).not.toContain('place_trade')
  })

  test('that a resource has other scopes on record, with the words of the authority', async () => {
    answersAbout({
      'alice/trades': refuses('invalid_scope', 'The resource has no scope "trade"; ask for buy.'),
    })
    watch(routeWith([READ, TRADE]))
    await until(() => authority.count('/perm') > 3)
    expect(sentences).toEqual([expect.stringContaining('ask for buy.')])
    for (const what of ['place_trade', 'read trade', 'alice/trades', 'resource_scopes', 'UMA_AS_PROVISION'])
      expect(sentences[0]).toContain(what)
  })

  test('that no tier governs the resource of a tool', async () => {
    answersAbout({ 'alice/trades': offers([]) })
    watch(routeWith([READ, TRADE]))
    await until(() => authority.count('/perm') > 3)
    expect(sentences).toEqual([expect.stringMatching(/place_trade.* no tier .*alice\/trades/)])
    expect(sentences[0]).toContain('usher owner tier apply')
  })

  test('that a tool needs a scope which no tier offers, with both lists', async () => {
    answersAbout({ 'alice/trades': offers(['read']) })
    watch(routeWith([READ, TRADE]))
    await until(() => authority.count('/perm') > 3)
    expect(sentences).toEqual([expect.stringMatching(/place_trade.*needs read trade .*offers read \(/)])
  })
})

test('nothing is said of tools whose needs are known and offered, and they are asked about once', async () => {
  answersAbout({ 'alice/trades': offers([]) })
  watch(routeWith([READ, SUMMARY, TRADE]))
  await until(() => authority.count('/perm') > 4)
  const asked = authority.received.flatMap(({ path, body }) => (path === '/perm' ? [body] : []))
  expect(asked.filter(body => body.includes('alice/portfolio'))).toHaveLength(1)
})

test('tools that a changed file brings are asked about at once', async () => {
  answersAbout({ 'alice/trades': offers([]) })
  const routes = [routeWith([READ])]
  const needs = watchToolNeeds(() => routes, { onFault: said => sentences.push(said), firstPauseMs: 600_000 })
  stop = () => needs.stop()
  needs.begin()
  await until(() => authority.count('/perm') === 1)
  routes.push(routeWith([TRADE]))
  needs.begin()
  await until(() => sentences.length > 0)
  expect(sentences).toEqual([expect.stringContaining('place_trade')])
})

test('an authority that does not say what is offered, or is away, is not complained of', async () => {
  answersAbout({
    'alice/portfolio': { status: 201, body: { ticket: 'tag~tkt_one' } },
    'alice/trades': { status: 503, body: { error: 'temporarily_unavailable' } },
  })
  watch(routeWith([READ, TRADE]))
  await until(() => authority.count('/perm') > 4)
  expect(sentences).toEqual([])
})

test('a resource server that registers itself is not asked about: its authority reads what it lists', async () => {
  answersAbout({ 'alice/portfolio': refuses('invalid_resource_id', 'Register it.') })
  watch(routeWith([READ], true), routeWith([TRADE]))
  await until(() => authority.count('/perm') > 0)
  expect(authority.received.filter(({ body }) => body.includes('alice/portfolio'))).toEqual([])
  expect(sentences).toEqual([])
})
