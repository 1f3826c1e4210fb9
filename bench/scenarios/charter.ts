/**
 * Owns what another owner waits while a member's authority lands a large charter, and while it answers
 * previews of one: 200 claims over 1,000 resources of alice's. What is timed is asked for bob, who is at the
 * same authority and in no organization: introspections of a standing grant by his own resource server, and
 * what his owner's client reads. docs/performance.md says how to read it. By itself alone: `node
 * bench/scenarios/charter.ts`.
 */
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { Client } from 'pg'
import { startEmbeddedPostgres } from '../../src/dev/stack/embedded-postgres.ts'
import { OWNER } from '../../src/dev/stack/household.ts'
import { startIdentityProvider } from '../../src/dev/stack/identity-provider.ts'
import {
  adminOf,
  agreeTo,
  invite,
  membershipOf,
  openOrganizationScene,
  previewOf,
} from '../../src/dev/story/organization-scene.ts'
import type { Scene } from '../../src/dev/story/scene.ts'
import { startStack, type Stack } from '../../src/dev/stack/stack.ts'
import { createOwnerClient } from '../../src/owner/client.ts'
import { openDatabase } from '../../src/storage/authority/database.ts'
import type { JsonObject } from '../../src/wire/json.ts'
import { thumbprintHandle } from '../../src/wire/agents/handles.ts'
import { generatePrivateJwk, importPrivateJwk } from '../../src/wire/signatures/keys.ts'
import * as seed from '../../test/support/seed.ts'
import { percentile, spreadOf, type Spread } from '../figures.ts'
import { analyze } from '../system.ts'
import { runByItself } from './by-itself.ts'
import { openAuthority } from './negotiation.ts'
import { paced } from './paced.ts'
import { openProtection } from './protection-door.ts'

const CLAIMS = 200
const RESOURCES = 1_000
const TURNS = 5
const SECONDS = 8
const REQUESTS_PER_SECOND = 100
/** Of his resource server: a second of its requests may be unanswered before one waits for a connection. */
const CONNECTIONS = 64
/** A version is published so long after the one before at the earliest, and not before that one landed. */
const LANDING_EVERY_MS = 1_000

const PHASES = ['quiet', 'landing', 'preview'] as const
type Phase = (typeof PHASES)[number]

interface Waited {
  p50_ms: Record<Phase, number[]>
  p99_ms: Record<Phase, number[]>
  most_ms: Record<Phase, number>
  /** What ended beside bob's requests in the measured turns: versions that landed, previews answered. */
  beside: Record<Phase, number>
  /** Turn by turn: p99 of that phase over p99 while neither happens. */
  ratios: Record<'landing' | 'preview', number[]>
}

/** What is timed. */
interface Bob {
  /** The nth of his requests; rejects unless it is answered as it should be. */
  ask(n: number): Promise<void>
  close(): Promise<void>
}

/**
 * Makes him at the authority: a resource server of his own, an agent with a standing grant that it
 * negotiated, and a device key for his client.
 */
async function settleBob({ issuer, ownerApi }: Stack, databaseUrl: string): Promise<Bob> {
  const agent = importPrivateJwk(generatePrivateJwk())
  const database = openDatabase({ url: databaseUrl, poolMax: 1 })
  const { db } = database
  const { owner, key } = await seed.seedOwnerWithKey(db)
  await seed.seedConnection(db, owner, thumbprintHandle(agent))
  await database.close()
  const his = { issuer, owner, clientId: seed.CLIENT_ID, clientSecret: seed.CLIENT_SECRET }
  const negotiating = await openAuthority(his, { inFlight: 1, connections: 1 }, 'notes')
  const standing = await negotiating.negotiate(agent)
  await negotiating.close()
  const server = await openProtection(his, { connections: CONNECTIONS })
  const client = createOwnerClient({ api: ownerApi, issuer, key })
  return {
    ask: async n => {
      if (n % 2 === 0 && (await server.introspect(standing))['active'] !== true)
        throw new Error('his standing grant was not answered as one')
      if (n % 2 === 1 && (await client.policies()).length !== 1) throw new Error('his tier was not answered')
    },
    close: () => server.close(),
  }
}

/** Publishes the next version, by which her tiers are cut anew. @returns the one before it. */
async function publish(scene: Scene): Promise<number> {
  const admin = adminOf(scene)
  const { version, charter } = (await admin.ask({ method: 'GET', path: '/admin/charter' })) as {
    version: number
    charter: JsonObject & { claims: string[]; envelope: JsonObject }
  }
  const tools = Array.from({ length: CLAIMS }, (_, n) => `${OWNER}/tools-${n}*`)
  const claims = [...new Set([...charter.claims, ...tools])].slice(0, CLAIMS)
  const envelope = { ...charter.envelope, max_expires_in: version % 2 === 0 ? 500 : 600 }
  const body = { charter: { ...charter, claims, envelope }, base_version: version }
  await admin.ask({ method: 'PUT', path: '/admin/charter', body })
  return version
}

/** The same, until her authority has landed it. */
async function land(scene: Scene): Promise<void> {
  const before = await publish(scene)
  while (Number((await membershipOf(scene))['charter_version']) <= before) await delay(50)
}

/** What goes on beside his requests until `over`. @returns how often it ended. */
async function goingOn(phase: Phase, { scene, code, over }: Beside): Promise<number> {
  let ended = 0
  if (phase === 'landing')
    for (; !over.aborted; ended++) await Promise.all([land(scene), delay(LANDING_EVERY_MS)])
  if (phase === 'preview') for (; !over.aborted; ended++) await previewOf(scene, code)
  return ended
}

interface Beside {
  scene: Scene
  /** Of an invitation that she only reads. */
  code: string
  over: AbortSignal
}

async function measure(bob: Bob, scene: Scene): Promise<Waited> {
  const code = await invite(scene)
  const times: Record<Phase, number[][]> = { quiet: [], landing: [], preview: [] }
  const beside: Record<Phase, number> = { quiet: 0, landing: 0, preview: 0 }
  for (let turn = 0; turn <= TURNS; turn++)
    for (const phase of PHASES) {
      const here: number[] = []
      const over = new AbortController()
      const going = goingOn(phase, { scene, code, over: over.signal })
      // Awaited below; a failure before that must not end the process unheard.
      going.catch(() => undefined)
      await paced(REQUESTS_PER_SECOND, SECONDS, async (n, dueAt) => {
        await bob.ask(n)
        here.push(performance.now() - dueAt)
      })
      over.abort()
      const ended = await going
      // The first turn warms up.
      if (turn === 0) continue
      times[phase].push(here.sort((a, b) => a - b))
      beside[phase] += ended
    }
  const of = <Value>(value: (phase: Phase) => Value) =>
    Object.fromEntries(PHASES.map(phase => [phase, value(phase)])) as Record<Phase, Value>
  const at = (share: number) => of(phase => times[phase].map(all => percentile(all, share)))
  const p99_ms = at(0.99)
  const over = (phase: Phase) => p99_ms[phase].map((ms, turn) => ms / p99_ms.quiet[turn]!)
  return {
    p50_ms: at(0.5),
    p99_ms,
    most_ms: of(phase => Math.max(...times[phase].map(all => all.at(-1)!))),
    beside,
    ratios: { landing: over('landing'), preview: over('preview') },
  }
}

async function fill(databaseUrl: string): Promise<void> {
  const client = new Client({ connectionString: databaseUrl })
  await client.connect()
  try {
    await client.query(
      `INSERT INTO resources (owner, resource_id, client_id, name, type, resource_scopes, consequence, source)
       SELECT owner, owner || '/tools-' || n % ${CLAIMS} || '/' || n, client_id, name, type, resource_scopes, consequence, source
       FROM (SELECT * FROM resources WHERE owner = $1 AND resource_id = $1 || '/portfolio') one, generate_series(1, ${RESOURCES}) n`,
      [OWNER],
    )
  } finally {
    await client.end()
  }
  await analyze(databaseUrl)
}

function render({ p50_ms, p99_ms, most_ms, beside, ratios }: Waited): string {
  const spread = (values: number[], digits: number, unit = ''): string => {
    const { median, min, max } = spreadOf(values)! satisfies Spread
    return `${median.toFixed(digits)}${unit} (${min.toFixed(digits)} to ${max.toFixed(digits)})`
  }
  const line = (phase: Phase): string =>
    `  p50 ${spread(p50_ms[phase], 1, ' ms')}, p99 ${spread(p99_ms[phase], 1, ' ms')}, at most ${most_ms[phase].toFixed(1)} ms`
  const ratio = (phase: 'landing' | 'preview'): string =>
    `  p99 over that of the same turn without: ${spread(ratios[phase], 2)}`
  const seconds = TURNS * SECONDS
  const size = `${CLAIMS} claims over ${RESOURCES} resources of another owner's`
  return [
    `${REQUESTS_PER_SECOND} requests a second of an owner in no organization, ${TURNS} turns of ${SECONDS} s each; nothing else:`,
    line('quiet'),
    `the same while a charter of ${size} lands again and again (${beside.landing} did in these ${seconds} s):`,
    line('landing'),
    ratio('landing'),
    `the same while she asks for one preview of it after the other (${beside.preview} were answered in these ${seconds} s):`,
    line('preview'),
    ratio('preview'),
  ].join('\n')
}

async function run(directory: string): Promise<string> {
  const stops: (() => Promise<unknown>)[] = []
  try {
    const server = await startEmbeddedPostgres({ maxConnections: 200, durable: true })
    stops.push(() => server.stop())
    const [authority, organization] = await Promise.all(
      ['authority', 'organization'].map(name => made(server.url, name)),
    )
    const identityProvider = await startIdentityProvider()
    stops.push(() => identityProvider.stop())
    const stack = await startStack({
      directory: join(directory, 'stack'),
      databaseUrl: authority!,
      organization: { databaseUrl: organization!, identityProvider },
    })
    stops.push(() => stack.stop())
    const scene = await openOrganizationScene(stack)
    stops.push(() => scene.close())
    await fill(authority!)
    await publish(scene)
    const code = await invite(scene)
    await agreeTo(scene, code, await previewOf(scene, code))
    const bob = await settleBob(stack, authority!)
    stops.push(() => bob.close())
    return render(await measure(bob, scene))
  } finally {
    for (const stop of stops.toReversed()) await stop()
  }
}

/** A database of that name. @returns its URL. */
async function made(serverUrl: string, name: string): Promise<string> {
  const client = new Client({ connectionString: serverUrl })
  await client.connect()
  await client.query(`CREATE DATABASE ${name}`)
  await client.end()
  const url = new URL(serverUrl)
  url.pathname = `/${name}`
  return url.href
}

if (import.meta.main) await runByItself(run)
