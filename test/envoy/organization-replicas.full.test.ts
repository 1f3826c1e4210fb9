/**
 * Two replicas of each party behind a real Envoy: two authorities, two organizations and two sidecars.
 * Contract, "Grant (RPT) liveness" (organization_revoked), "Organization membership, on the member's
 * authorization server": what a loss ended is ended wherever it is asked about, and her own goes on.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Grant } from '../../src/agent/index.ts'
import { startIdentityProvider, type IdentityProvider } from '../../src/dev/stack/identity-provider.ts'
import { CLIENT_ID, OWNER } from '../../src/dev/stack/household.ts'
import { callWith, grantFor } from '../../src/dev/story/held-grants.ts'
import {
  adminOf,
  agreeTo,
  askClearances,
  attest,
  invite,
  MEMBERSHIP,
  openOrganizationScene,
  previewOf,
} from '../../src/dev/story/organization-scene.ts'
import type { RawReply } from '../../src/dev/story/raw-call.ts'
import { SUBJECT } from '../../src/dev/stack/organization-place.ts'
import { openAgent, firstEvent, type ActingAgent, type Scene } from '../../src/dev/story/scene.ts'
import { executions } from '../../src/dev/story/story.ts'
import type { Stack } from '../../src/dev/stack/stack.ts'
import type { JsonObject } from '../../src/wire/json.ts'
import { generatePrivateJwk, importPrivateJwk } from '../../src/wire/signatures/keys.ts'
import { doorOf, startAlternatingDoor, type AlternatingDoor } from '../support/alternating-door.ts'
import { envoy } from '../support/envoy.ts'
import { emptyDatabase } from '../support/postgres.ts'
import { describeWith } from '../support/requirement.ts'
import { startScriptedServer } from '../support/scripted-http.ts'
import { startStack } from '../support/stack.ts'
import { until } from '../support/until.ts'

interface Held {
  agent: ActingAgent
  grant: Grant
}

describeWith(await envoy(), 'two replicas of each party, through Envoy', found => {
  let database: Awaited<ReturnType<typeof emptyDatabase>>
  let doors: Record<'agents' | 'owner' | 'organization', AlternatingDoor>
  let identityProvider: IdentityProvider
  let stack: Stack
  let scene: Scene
  /** Of what is hers alone: given before anything, and good to the end. */
  let own: Held
  /** What the organization was asked, by path. */
  const asked: string[] = []

  beforeAll(async () => {
    database = await emptyDatabase()
    doors = {
      agents: await startAlternatingDoor(),
      owner: await startAlternatingDoor(),
      organization: await startAlternatingDoor(),
    }
    identityProvider = await startIdentityProvider()
    stack = await startStack({
      envoy: found,
      authorities: 2,
      sidecars: 2,
      challengesPerMinute: 1_000_000,
      door: {
        ...doorOf(doors),
        open: started => {
          doorOf(doors).open(started)
          doors.organization.replicas.push(...started.organization!.replicas.map(({ url }) => url))
        },
      },
      organization: {
        databaseUrl: database.url,
        replicas: 2,
        door: doors.organization.url,
        identityProvider,
      },
    })
    doors.organization.loseAnswer(({ path }) => {
      asked.push(path.split('/')[1]!)
      return false
    })
    scene = await openOrganizationScene(stack)
    own = await held('statement_read')
  })
  afterAll(async () => {
    await scene?.close()
    await stack?.stop()
    await Promise.all(Object.values(doors ?? {}).map(door => door.close()))
    await identityProvider?.stop()
    await database?.close()
  })

  const held = async (tool: string, agent = scene.newAgent()): Promise<Held> => {
    const args = tool === 'statement_read' ? { month: '2026-10' } : undefined
    return { agent, grant: await grantFor(scene, agent, tool, args && { args }) }
  }
  const call = (tool: string, { agent, grant }: Held): Promise<RawReply> =>
    callWith(scene, tool, grant, agent)
  const joins = async () => {
    const code = await invite(scene)
    await agreeTo(scene, code, await previewOf(scene, code))
  }
  /** What each replica of the authority says of a grant. */
  const introspected = ({ grant }: Held) =>
    Promise.all(stack.authorities.map(({ url }) => introspect(url, grant)))

  async function introspect(url: string, { access_token: token }: Grant): Promise<string> {
    const form = {
      grant_type: 'client_credentials',
      scope: 'uma_protection',
      owner: OWNER,
      client_id: CLIENT_ID,
      client_secret: stack.household.clientSecret,
    }
    const pat = (await (
      await fetch(`${url}/token`, { method: 'POST', body: new URLSearchParams(form) })
    ).json()) as { access_token: string }
    const response = await fetch(`${url}/introspect`, {
      method: 'POST',
      headers: { authorization: `Bearer ${pat.access_token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ token }),
    })
    const said = (await response.json()) as { active: boolean; reason?: string }
    return said.active ? 'active' : said.reason!
  }
  const publish = async (change: (charter: Record<string, unknown>) => object) => {
    const admin = adminOf(scene)
    const { charter, version } = await admin.charter()
    const body = { charter: { ...charter, ...change(charter) }, base_version: version }
    await admin.ask({ method: 'PUT', path: '/admin/charter', body })
  }
  /** The notice ends what was granted, and then her authority asks how she stands. */
  const move = async (role: string) => {
    const path = `/admin/members/${OWNER}/role`
    await adminOf(scene).ask({ method: 'POST', path, body: { role } })
    await until(async () => (await membership()).role === role)
  }
  const STAFF = { name: 'Staff', delegation: 'any-agent' }
  const LOSSES: [string, () => Promise<unknown>, () => Promise<unknown>][] = [
    ['she leaves', () => scene.owner.ask({ method: 'DELETE', path: MEMBERSHIP }), joins],
    ['her group changes', () => move('traders'), () => move('staff')],
    [
      'what it shared is shared no more',
      async () => {
        await publish(({ roles }) => ({ roles: { ...(roles as object), staff: { ...STAFF, grants: [] } } }))
        // The notice tells that there is something to ask for.
        await until(async () => (await membership()).grants.length === 0)
      },
      async () => {
        const grants = [`${OWNER}/portfolio`]
        await publish(({ roles }) => ({ roles: { ...(roles as object), staff: { ...STAFF, grants } } }))
        await until(async () => (await membership()).grants.length === 1)
      },
    ],
  ]
  const membership = async () =>
    (await scene.owner.ask({ method: 'GET', path: MEMBERSHIP })) as { role: string; grants: string[] }

  test('she joins; what is shared is called through either sidecar', async () => {
    await joins()
    const within = await held('portfolio_read')
    await until(async () => (await call('portfolio_read', within)).status === 200)
    for (let n = 0; n < 8; n++) expect((await call('portfolio_read', within)).status).toBe(200)
  })

  test('a call costs no request to the organization: how she stands is asked beside the calls', async () => {
    const within = await held('portfolio_read')
    const before = asked.length
    const began = performance.now()
    for (let n = 0; n < 100; n++) expect((await call('portfolio_read', within)).status).toBe(200)
    const rounds = Math.ceil((performance.now() - began) / 5_000) + 1
    const meanwhile = asked.slice(before).filter(path => path === 'membership')
    expect(meanwhile.length).toBeLessThanOrEqual(rounds * stack.checkPorts.length)
    expect(asked.slice(before).filter(path => ['introspect', 'consume', 'decision'].includes(path))).toEqual(
      [],
    )
  })

  test('after each loss every grant that it concerns is organization_revoked at each replica, and hers is not', async () => {
    for (const [what, lose, regain] of LOSSES) {
      const concerned = [await held('portfolio_read'), await held('portfolio_read')]
      for (const one of concerned)
        expect([what, await introspected(one)]).toEqual([what, ['active', 'active']])
      await lose()
      for (const one of concerned) {
        expect([what, await introspected(one)]).toEqual([
          what,
          ['organization_revoked', 'organization_revoked'],
        ])
        // By whichever sidecar the call goes.
        for (let n = 0; n < 4; n++) expect((await call('portfolio_read', one)).status).toBe(403)
      }
      expect([what, await introspected(own)]).toEqual([what, ['active', 'active']])
      for (let n = 0; n < 4; n++) expect((await call('statement_read', own)).status).toBe(200)
      await regain()
      for (const one of concerned)
        expect([what, await introspected(one)]).toEqual([
          what,
          ['organization_revoked', 'organization_revoked'],
        ])
    }
  })

  /** An administrator acts on agents of hers that reach what the organization governs. */
  const act = (path: string, body: JsonObject) =>
    adminOf(scene).ask({ method: 'POST', path: `/admin/members/${OWNER}/${path}`, body: body })
  const waitingFamilies = async () => {
    const families: string[] = []
    for await (const { family } of scene.owner.pending()) families.push(family)
    return families
  }
  /** What a call is answered by whichever sidecar and authority: one answer. */
  const answers = async (tool: string, one: Held) => {
    const found = new Set<string>()
    for (let n = 0; n < 4; n++) {
      const { status, json } = await call(tool, one)
      found.add(`${status} ${(json as { error?: string }).error ?? ''}`.trim())
    }
    return [...found]
  }
  const DENIED = { code: 'request_denied' }
  const REVOKED = ['403 access_revoked']

  test.each<[string, (agent: { handle: string; origin: string }) => [string, JsonObject, string]]>([
    ['ends the reach of an agent', ({ handle }) => ['connections/revoke', { handle }, 'connections/restore']],
    ['blocks an operator', ({ origin }) => ['operators/block', { origin }, 'operators/unblock']],
  ])(
    'an administrator %s: the next call on what is governed is refused, what waits there is withdrawn, hers goes on, and undoing it revives nothing',
    async (_what, acting) => {
      await move('traders')
      const operator = await startScriptedServer(() => undefined)
      const client_id = `${operator.origin}/client.json`
      operator.script('/client.json', { body: { client_id, client_name: 'Bots' } })
      const signedIn = await identityProvider.signIn(SUBJECT)
      const key = importPrivateJwk(generatePrivateJwk())
      /** The same agent, which keeps no grant that it was given before. */
      const named = (): ActingAgent => ({
        ...openAgent(stack, { ...signedIn, client_id, key }),
        agentKey: key,
        handle: `jkt:${key.thumbprint}`,
      })
      const other = await held('portfolio_read')
      const governed = await held('portfolio_read', named())
      const mine = await held('statement_read', named())
      for (const one of [governed, other]) await right('portfolio_read', one, { status: 200, wrong: true })
      const waiting = named().startCall('place_trade', { symbol: 'VTI', qty: 1 })
      const { family } = await firstEvent(waiting, 'waiting')
      expect(await waitingFamilies()).toContain(family)

      const [path, body, undo] = acting({ handle: `jkt:${key.thumbprint}`, origin: operator.origin })
      await act(path, body)
      expect(await answers('portfolio_read', governed)).toEqual(REVOKED)
      expect(await introspected(governed)).toEqual(['organization_revoked', 'organization_revoked'])
      expect(await answers('statement_read', mine)).toEqual(['200'])
      expect(await answers('portfolio_read', other)).toEqual(['200'])
      expect(await waitingFamilies()).not.toContain(family)
      await expect(waiting.result).rejects.toMatchObject({ code: 'request_denied' })
      const again = named().startCall('portfolio_read')
      await expect(again.result).rejects.toMatchObject({ code: 'request_denied' })
      expect(await answers('statement_read', await held('statement_read', named()))).toEqual(['200'])

      await act(undo, body)
      expect(await answers('portfolio_read', governed)).toEqual(REVOKED)
      expect(await introspected(governed)).toEqual(['organization_revoked', 'organization_revoked'])
      expect(await answers('portfolio_read', await held('portfolio_read', named()))).toEqual(['200'])
      await move('staff')
      await operator.close()
    },
  )

  /** Waits until all answer so; before that only an outage may be told, unless `wrong` says so. */
  const right = async (
    tool: string,
    one: Held,
    { status, wrong = false }: { status: number; wrong?: boolean },
  ): Promise<void> => {
    const statuses: number[] = []
    await until(async () => {
      statuses.push((await call(tool, one)).status)
      return statuses.length >= 8 && statuses.slice(-8).every(found => found === status)
    })
    if (!wrong) expect(statuses.filter(found => found !== status && found !== 503)).toEqual([])
  }

  test('a clearance admits by whichever replica, and what it admitted ends with it at each', async () => {
    await askClearances(scene, { reading: { desk: ['markets'] } })
    for (let n = 0; n < 4; n++)
      await expect(scene.newAgent().startCall('portfolio_read', {}).result).rejects.toMatchObject(DENIED)
    await attest(scene, { desk: 'markets' })
    const admitted = [await held('portfolio_read'), await held('portfolio_read')]
    for (const one of admitted) expect(await answers('portfolio_read', one)).toEqual(['200'])
    await attest(scene, {})
    for (const one of admitted) {
      expect(await introspected(one)).toEqual(['organization_revoked', 'organization_revoked'])
      expect(await answers('portfolio_read', one)).toEqual(REVOKED)
    }
    expect(await answers('statement_read', own)).toEqual(['200'])
    await askClearances(scene, { reading: {} })
  })

  test('an emergency is let in once by whichever replica, and she sees all of it', async () => {
    const call = { resource: stack.resource, tool: 'place_trade', arguments: { symbol: 'BND', qty: 3 } }
    const placed = executions(scene, 'place_trade').length
    const seen = async (): Promise<unknown[]> => {
      const whats: unknown[] = []
      for await (const { what } of scene.owner.ledger({ kind: 'break_glass' })) whats.push(what)
      return whats.toSorted()
    }
    for (let n = 1; n <= 4; n++) {
      const body = { owner: OWNER, reason: 'the market burns' }
      const opened = await adminOf(scene).ask({ method: 'POST', path: '/admin/break-glass', body })
      const asked = {
        organization: stack.organization!.issuer,
        owner: OWNER,
        resource_id: `${OWNER}/trades`,
        scopes: ['trade'],
        reason: 'the market burns',
        voucher: opened['voucher'] as string,
      }
      const desk = openAgent(stack)
      await desk.agent.breakGlass(call, asked)
      await expect(desk.agent.breakGlass(call, asked)).rejects.toMatchObject({ status: 403 })
      expect(executions(scene, 'place_trade').length).toBe(placed + n)
      await until(async () => (await seen()).filter(what => what === 'used').length === n)
    }
    const told = (what: string) => Array.from({ length: 4 }, () => what)
    expect((await seen()).filter(what => what !== 'refused')).toEqual([
      ...told('accepted'),
      ...told('opened'),
      ...told('used'),
    ])
  })

  test.each(['organization', 'authority', 'sidecar'] as const)(
    'with either %s killed the answers stay right',
    async what => {
      const good = await held('portfolio_read')
      const ended = await held('portfolio_read')
      await scene.owner.revoke(ended.agent.handle)
      for (const replica of [0, 1]) {
        // Either sidecar may know for ten seconds yet that nothing was shared.
        await right('portfolio_read', good, { status: 200, wrong: true })
        const child = stack.children.find(({ name }) => name === `${what}-${replica + 1}`)!
        process.kill(child.pid!, 'SIGKILL')
        await child.exited
        await right('portfolio_read', good, { status: 200 })
        await right('portfolio_read', ended, { status: 403 })
        await right('statement_read', own, { status: 200 })
        await stack.restart(what, replica)
      }
    },
  )
})
