/**
 * Owns what others wait while a member's authority lands a large charter: 200 claims over 1,000 resources of
 * hers, another version each second. docs/performance.md says how to read it. By itself alone:
 * `node bench/scenarios/charter.ts`.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { Client } from 'pg'
import { startEmbeddedPostgres } from '../../src/dev/embedded-postgres.ts'
import { CLIENT_ID, OWNER } from '../../src/dev/household.ts'
import { startIdentityProvider } from '../../src/dev/identity-provider.ts'
import {
  adminOf,
  agreeTo,
  invite,
  membershipOf,
  openOrganizationScene,
  previewOf,
} from '../../src/dev/organization-scene.ts'
import type { Scene } from '../../src/dev/scene.ts'
import { startStack, type Stack } from '../../src/dev/stack.ts'
import type { JsonObject } from '../../src/wire/json.ts'
import { percentile, spreadOf, type Spread } from '../figures.ts'
import { analyze } from '../system.ts'
import { paced } from './neighbour.ts'

const CLAIMS = 200
const RESOURCES = 1_000
const TURNS = 5
const SECONDS = 8
const PROBES_PER_SECOND = 100

type Phase = 'quiet' | 'landing'

interface Waited {
  p50_ms: Record<Phase, number[]>
  p99_ms: Record<Phase, number[]>
  most_ms: Record<Phase, number>
  /** Versions that landed in the phases of that name. */
  landed: number
  /** Turn by turn: p99 while charters land over p99 while none does. */
  ratios: number[]
}

/** Introspections by her resource server, and a document that is the same for everybody. */
async function probing({ issuer, household }: Stack): Promise<(n: number) => Promise<void>> {
  const post = (path: string, body: Record<string, string>, headers: Record<string, string> = {}) =>
    fetch(issuer + path, { method: 'POST', headers, body: new URLSearchParams(body) })
  const asked = await post('/token', {
    grant_type: 'client_credentials',
    scope: 'uma_protection',
    owner: OWNER,
    client_id: CLIENT_ID,
    client_secret: household.clientSecret,
  })
  const { access_token } = (await asked.json()) as { access_token: string }
  return async n => {
    const answer =
      n % 2 === 0
        ? await post(
            '/introspect',
            { token: `rpt_unknown_${n}` },
            { authorization: `Bearer ${access_token}` },
          )
        : await fetch(`${issuer}/jwks`)
    await answer.arrayBuffer()
    if (answer.status !== 200) throw new Error(`${answer.url} answered ${answer.status}`)
  }
}

/** Publishes the next version, by which her tiers are cut anew. @returns the one before it. */
async function publish(scene: Scene, nth: number): Promise<number> {
  const admin = adminOf(scene)
  const { version, charter } = (await admin.ask({ method: 'GET', path: '/admin/charter' })) as {
    version: number
    charter: JsonObject & { claims: string[]; envelope: JsonObject }
  }
  const tools = Array.from({ length: CLAIMS }, (_, n) => `${OWNER}/tools-${n}*`)
  const claims = [...new Set([...charter.claims, ...tools])].slice(0, CLAIMS)
  const envelope = { ...charter.envelope, max_expires_in: nth % 2 === 0 ? 500 : 600 }
  const body = { charter: { ...charter, claims, envelope }, base_version: version }
  await admin.ask({ method: 'PUT', path: '/admin/charter', body })
  return version
}

/** The same, until her authority has landed it. */
async function land(scene: Scene, nth: number): Promise<void> {
  const before = await publish(scene, nth)
  while (Number((await membershipOf(scene))['charter_version']) <= before) await delay(50)
}

async function measure(stack: Stack, scene: Scene): Promise<Waited> {
  const probe = await probing(stack)
  const times: Record<Phase, number[][]> = { quiet: [], landing: [] }
  let landed = 0
  for (let turn = 0; turn <= TURNS; turn++)
    for (const phase of ['quiet', 'landing'] as const) {
      const here: number[] = []
      const over = new AbortController()
      const landings = (async () => {
        if (phase === 'quiet') return
        for (; !over.signal.aborted; landed++) await Promise.all([land(scene, landed), delay(1_000)])
      })()
      await paced(PROBES_PER_SECOND, SECONDS, async (n, dueAt) => {
        await probe(n)
        here.push(performance.now() - dueAt)
      })
      over.abort()
      await landings
      // The first turn warms up.
      if (turn > 0) times[phase].push(here.sort((a, b) => a - b))
    }
  const at = (phase: Phase, share: number) => times[phase].map(all => percentile(all, share))
  const both = <Value>(of: (phase: Phase) => Value) => ({ quiet: of('quiet'), landing: of('landing') })
  const p99_ms = both(phase => at(phase, 0.99))
  return {
    p50_ms: both(phase => at(phase, 0.5)),
    p99_ms,
    most_ms: both(phase => Math.max(...times[phase].map(all => all.at(-1)!))),
    landed,
    ratios: p99_ms.landing.map((ms, turn) => ms / p99_ms.quiet[turn]!),
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

function render({ p50_ms, p99_ms, most_ms, landed, ratios }: Waited): string {
  const shown = (values: number[]): string => {
    const { median, min, max } = spreadOf(values)! satisfies Spread
    return `${median.toFixed(1)} ms (${min.toFixed(1)} to ${max.toFixed(1)})`
  }
  const line = (phase: Phase): string =>
    `  p50 ${shown(p50_ms[phase])}, p99 ${shown(p99_ms[phase])}, at most ${most_ms[phase].toFixed(1)} ms`
  const { median, min, max } = spreadOf(ratios)!
  return [
    `${PROBES_PER_SECOND} requests of others a second, while no charter lands:`,
    line('quiet'),
    `the same while one of ${CLAIMS} claims over ${RESOURCES} resources lands each second (${landed} did):`,
    line('landing'),
    `p99 beside it over p99 without: ${median.toFixed(2)} (${min.toFixed(2)} to ${max.toFixed(2)})`,
  ].join('\n')
}

async function main(): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), 'usher-bench-'))
  const stops: (() => Promise<unknown>)[] = [() => rm(directory, { recursive: true, force: true })]
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
    await publish(scene, 0)
    const code = await invite(scene)
    await agreeTo(scene, code, await previewOf(scene, code))
    process.stdout.write(`${render(await measure(stack, scene))}\n`)
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

if (import.meta.main) await main()
