/**
 * Owns the cost of joint accounts: a negotiation at a tally whose three holders are at two authorities,
 * beside an ordinary one; and a call under its grant, whose verdicts were verified at the first, beside an
 * ordinary standing call at the same sidecar. In turns, on a system of its own. By itself: `node
 * bench/scenarios/joint.ts`.
 */
import { join } from 'node:path'
import { startChild, untilReady } from '../../src/dev/stack/child-process.ts'
import type { Household } from '../../src/dev/stack/household.ts'
import { ACCOUNT, placeJoint, type JointPlace } from '../../src/dev/stack/joint-place.ts'
import { agreeAndOffer, HOLDERS } from '../../src/dev/story/joint-scene.ts'
import { freePorts } from '../../src/dev/stack/ports.ts'
import type { Scene } from '../../src/dev/story/scene.ts'
import { createOwnerClient } from '../../src/owner/client.ts'
import { asClientId, asOwner } from '../../src/wire/identifiers.ts'
import { importPrivateJwk, type PrivateKey } from '../../src/wire/signatures/keys.ts'
import { bundledCommand } from '../../test/support/deployed.ts'
import { ROOT } from '../../test/support/repository.ts'
import { percentile, spreadOf, type Spread } from '../figures.ts'
import { checkLoad } from '../load/check-load.ts'
import { analyze, obtainDatabase, startOwnSystem, type System } from '../system.ts'
import type { Load, World } from '../world.ts'
import { runByItself } from './by-itself.ts'
import { openAuthority, Unexpected, type AuthorityDoor } from './negotiation.ts'
import { standingCorpus } from './standing.ts'

const TURNS = 5
const NEGOTIATIONS = 20
/** Of those that the owners know, as many as negotiate and call here. */
const AGENTS = 16
const CALL_SECONDS = 3
const SHARE = { inFlight: 32, connections: 4 }

export interface JointCost {
  /** Turn by turn. */
  ordinary_p50_ms: number[]
  joint_p50_ms: number[]
  negotiation_ratio: number[]
  standing_per_second: number[]
  joint_per_second: number[]
  call_ratio: number[]
}

/** Measures on a system of its own. Takes about two minutes. */
export async function measureJoint(
  directory: string,
  { tell }: { tell: (line: string) => void },
): Promise<JointCost> {
  tell('joint: starting its system')
  const own = join(directory, 'joint')
  const [port] = await freePorts(1)
  const tally = `http://127.0.0.1:${port}`
  const system = await startOwnSystem(own, { UMA_AS_TALLIES: tally })
  const stops: (() => Promise<void>)[] = [() => system.stop()]
  try {
    const place = await startJoint(system, { directory: own, tally, stops })
    const { checkPort } = await system.sidecarWith({ others: [place.route] })
    const ordinary = await openAuthority(system.world, SHARE)
    stops.push(() => ordinary.close())
    const world = jointWorld(system.world, place)
    const joint = await openAuthority(world, SHARE, 'account')
    stops.push(() => joint.close())
    const agents = await letIn(place, joint, system.world.agents.slice(0, AGENTS))
    await analyzeTally(place)
    const keys = agents.map(({ jwk }) => importPrivateJwk(jwk))
    const loads = await Promise.all(
      [system.world, { ...world, agents }].map(one => checkLoad([checkPort], SHARE, standingCorpus(one))),
    )
    const turns = []
    for (let n = 0; n <= TURNS; n++) {
      const negotiated = await negotiationTurn([ordinary, joint], keys)
      const called = await callTurn(loads as [Load, Load], {
        turn: n,
        recorded: calls => system.untilRecorded(calls),
      })
      tell(`joint: turn ${n}/${TURNS}${n === 0 ? ' (warm-up)' : ''}`)
      if (n > 0) turns.push({ negotiated, called })
    }
    return {
      ordinary_p50_ms: turns.map(({ negotiated: [first] }) => first),
      joint_p50_ms: turns.map(({ negotiated: [, second] }) => second),
      negotiation_ratio: turns.map(({ negotiated: [first, second] }) => second / first),
      standing_per_second: turns.map(({ called: [first] }) => first),
      joint_per_second: turns.map(({ called: [, second] }) => second),
      call_ratio: turns.map(({ called: [first, second] }) => second / first),
    }
  } finally {
    for (const stop of stops.toReversed()) await stop()
  }
}

/**
 * Does at the tally what autovacuum does within a minute, as the bench does at the authority: a plan that was
 * made for empty tables reads all grants to find one.
 */
async function analyzeTally({ servers }: JointPlace): Promise<void> {
  const { environment } = servers.find(({ command }) => command === 'tally')!
  await analyze(environment['DATABASE_URL']!)
}

/** The lines of the report. */
export function renderJoint(cost: JointCost): string {
  const shown = (values: number[], digits: number): string => {
    const { median, min, max } = spreadOf(values) as Spread
    return `${median.toFixed(digits)} (${min.toFixed(digits)} to ${max.toFixed(digits)})`
  }
  return [
    'what several hold',
    `  p50 of an ordinary negotiation, ms      ${shown(cost.ordinary_p50_ms, 2)}`,
    `  p50 of one with three holders, ms       ${shown(cost.joint_p50_ms, 2)}`,
    `  the second over the first               ${shown(cost.negotiation_ratio, 2)}`,
    `  standing calls a second                 ${shown(cost.standing_per_second, 0)}`,
    `  the same under a grant of a tally       ${shown(cost.joint_per_second, 0)}`,
    `  the second over the first               ${shown(cost.call_ratio, 3)}`,
  ].join('\n')
}

/** Tally and second authority with the settings that they have by default; the holders agree, and offer. */
async function startJoint(
  { world, ownerApi, ownerKey }: System,
  of: { directory: string; tally: string; stops: (() => Promise<void>)[] },
): Promise<JointPlace> {
  const { directory, tally, stops } = of
  const databases = {
    tally: (await obtainDatabase(world.databaseUrl, stops)).url,
    authority: (await obtainDatabase(world.databaseUrl, stops)).url,
  }
  // Nothing is in front of this tally.
  const turned = { url: tally, lead: () => undefined, inflate: () => '', stop: async () => undefined }
  const { issuer, publicUrl } = world
  const household = { ownerKey } as Household
  const place = await placeJoint(directory, { databases, turned }, { issuer, ownerApi, publicUrl, household })
  const usher = await bundledCommand(ROOT)
  for (const { name, command, url, environment } of place.servers) {
    const { UMA_TALLY_POLL_SECONDS: _hasty, ...settings } = environment
    const isTally = command === 'tally'
    const child = startChild({
      name,
      command: [...usher, command],
      environment: {
        ...settings,
        ...(isTally && { UMA_TALLY_LISTEN: new URL(tally).host }),
        UMA_DEV_LOOPBACK: 'true',
      },
      logFile: join(directory, `${name}.log`),
    })
    stops.push(() => child.stop())
    const at = isTally ? tally : url
    await untilReady(child, async () => (await fetch(`${at}/health`)).status === 200)
  }
  const scene = { stack: { joint: place } } as unknown as Scene
  for (const name of HOLDERS) await agreeAndOffer(scene, name)
  return place
}

/** The world as a resource server of the account has it. */
function jointWorld(world: World, { tally, resource, route }: JointPlace): World {
  const { client_id, client_secret } = route as { client_id: string; client_secret: string }
  return {
    ...world,
    issuer: tally,
    owner: asOwner(ACCOUNT),
    clientId: asClientId(client_id),
    clientSecret: client_secret,
    resource,
    path: new URL(resource).pathname,
  }
}

/** Each negotiates once, and the holders who are asked let it in, so that nobody is asked again. */
async function letIn(
  { holders }: JointPlace,
  door: AuthorityDoor,
  agents: World['agents'],
): Promise<World['agents']> {
  const owners = HOLDERS.map(name => createOwnerClient(holders[name]))
  const known: World['agents'] = []
  for (const agent of agents) {
    const state = { ended: false }
    const asking = settled(door, door.negotiate(importPrivateJwk(agent.jwk))).finally(
      () => (state.ended = true),
    )
    asking.catch(() => undefined)
    while (!state.ended)
      for (const owner of owners)
        for await (const { family } of owner.pending())
          // Once enough have allowed, what waits for the third is withdrawn.
          await owner.decide(family, 'approved').catch(() => undefined)
    known.push({ ...agent, rpt: await asking })
  }
  return known
}

/** Polls, at once each time: a poll is held until a decision lands. */
async function settled(door: AuthorityDoor, first: Promise<string>): Promise<string> {
  let answer = first
  for (;;) {
    try {
      return await answer
    } catch (error) {
      if (!(error instanceof Unexpected) || error.code !== 'request_submitted') throw error
      answer = door.poll(error.ticket)
    }
  }
}

/** Medians in milliseconds, one negotiation at a time, the two kinds in turns. */
async function negotiationTurn(
  doors: [AuthorityDoor, AuthorityDoor],
  keys: readonly PrivateKey[],
): Promise<[number, number]> {
  const times: [number[], number[]] = [[], []]
  for (let n = 0; n < NEGOTIATIONS; n++)
    for (const [at, door] of doors.entries()) {
      const began = performance.now()
      await settled(door, door.negotiate(keys[n % keys.length]!))
      times[at]!.push(performance.now() - began)
    }
  return times.map(some =>
    percentile(
      some.toSorted((a, b) => a - b),
      0.5,
    ),
  ) as [number, number]
}

/**
 * Calls a second, one kind after the other: in odd turns the joint ones first. What the ordinary ones leave
 * to be recorded is waited for, so that it takes nothing from the others.
 */
async function callTurn(
  loads: [Load, Load],
  { turn, recorded }: { turn: number; recorded: (calls: number) => Promise<void> },
): Promise<[number, number]> {
  const rates: [number, number] = [0, 0]
  for (const at of turn % 2 === 0 ? ([0, 1] as const) : ([1, 0] as const)) {
    const load = loads[at]
    await load.prepare(0)
    const began = performance.now()
    const until = began + CALL_SECONDS * 1_000
    let calls = 0
    const lane = async (): Promise<void> => {
      for (; performance.now() < until; calls++) await load.next()
    }
    await Promise.all(Array.from({ length: SHARE.inFlight }, lane))
    rates[at] = calls / ((performance.now() - began) / 1_000)
    if (at === 0) await recorded(calls)
  }
  return rates
}

if (import.meta.main)
  await runByItself(async (directory, tell) => renderJoint(await measureJoint(directory, { tell })))
