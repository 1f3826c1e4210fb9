/**
 * Owns the soak: a sidecar of its own process under calls, probes and probes that leave, and how its resident
 * memory goes. contract, "Health": probes must not fill its memory.
 */
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { connect as connectHttp2 } from 'node:http2'
import { connect as connectTcp } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { startChild, untilReady, type Child } from '../../src/dev/stack/child-process.ts'
import { accepts, freePorts } from '../../src/dev/stack/ports.ts'
import { s256Json } from '../../src/wire/encoding.ts'
import { callOf, newKey, nowSeconds, PUBLIC_URL, type CallParts } from '../enforcement/calls.ts'
import { checkBytes, connect, type CheckClient } from '../support/check-client.ts'
import { bundledCommand } from '../support/deployed.ts'
import { startScriptedAuthority, type ScriptedAuthority } from '../support/scripted-authority.ts'
import { sidecarSettings, writeSidecarFiles } from '../support/sidecar.ts'

export interface SoakOptions {
  /** How long in all, and from when on memory must stay as it is. */
  seconds: number
  warmUpSeconds: number
  /** Told at every sample. */
  onSample?: (sample: Sample) => void
}

/** `rssMib` of the sidecar; the counts are of all since the start. */
export interface Sample {
  atSeconds: number
  rssMib: number
  calls: number
  probes: number
}

export interface SoakResult {
  series: Sample[]
  /** Medians of the samples about the end of the warm-up, and of the last ones. */
  warmMib: number
  endMib: number
  /** By how much the end is above the warm-up, as a share of it. */
  growth: number
  /** Answers by what they were; anything unforeseen is an error. */
  answers: Record<string, number>
}

/**
 * Beside the image's own flags, the heap of a small container. Left to itself on a machine with much memory
 * V8 collects so rarely that garbage of minutes hides a leak, and looks like one.
 */
export const HEAP = '--max-old-space-size=96'
const CALLS_PER_SECOND = 100
const PROBES_PER_SECOND = 20
/** Connections that a prober leaves open, for the sidecar to end by their age. */
const ABANDONED_PER_SECOND = 0.2
const SAMPLES = 60
const OPEN_MAX = 100
/** Long: a machine that is busy with other things is no fault of the sidecar's. */
const DEADLINE_MS = 120_000

/** Runs it to the end. Rejects when the sidecar ends, or answers what it should not. */
export async function soak({ seconds, warmUpSeconds, onSample }: SoakOptions): Promise<SoakResult> {
  const directory = await mkdtemp(join(tmpdir(), 'usher-soak-'))
  const authority = await startScriptedAuthority()
  const [check, documents] = await freePorts(2)
  const child = await startSidecar({ directory, authority, check, documents: documents! })
  const load = startLoad({ authority, check, documents: documents! })
  const series: Sample[] = []
  try {
    const started = performance.now()
    const every = Math.max(1, seconds / SAMPLES)
    for (let due = every; due <= seconds; due += every) {
      await delay(Math.max(0, started + due * 1_000 - performance.now()))
      const ending = await child.ended()
      if (ending !== undefined) throw new Error(ending)
      if (load.faults.length > 0) throw new Error('the sidecar failed under load', { cause: load.faults[0] })
      authority.received.length = 0
      const sample = {
        atSeconds: Math.round(due),
        rssMib: await residentMib(child.pid!),
        calls: load.calls(),
        probes: load.probes(),
      }
      series.push(sample)
      onSample?.(sample)
    }
  } finally {
    await load.stop()
    await child.stop()
    await authority.close()
    await rm(directory, { recursive: true })
  }
  return { series, ...judged(series, warmUpSeconds), answers: load.answers }
}

function judged(series: Sample[], warmUpSeconds: number) {
  const warm = series.filter(({ atSeconds }) => atSeconds >= warmUpSeconds)
  const about = Math.max(1, Math.min(8, Math.floor(warm.length / 2)))
  const median = (samples: Sample[]): number =>
    samples.map(({ rssMib }) => rssMib).sort((a, b) => a - b)[Math.floor(samples.length / 2)]!
  const [warmMib, endMib] = [median(warm.slice(0, about)), median(warm.slice(-about))]
  return { warmMib, endMib, growth: endMib / warmMib - 1 }
}

async function residentMib(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  return Math.round(Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)![1]) / 102.4) / 10
}

interface Place {
  authority: ScriptedAuthority
  check: number
  documents: number
}

async function startSidecar({
  directory,
  authority,
  check,
  documents,
}: Place & { directory: string }): Promise<Child> {
  const listen = { check: `127.0.0.1:${check}`, http: `127.0.0.1:${documents}` }
  const settings = { ...sidecarSettings({ directory, authority }, listen), drain_ms: 0 }
  const file = await writeSidecarFiles(directory, settings)
  const command = await bundledCommand(join(import.meta.dirname, '..', '..'))
  const child = startChild({
    name: 'sidecar',
    command: [...command, 'sidecar', '--config', file],
    environment: { UMA_DEV_LOOPBACK: 'true', UMA_PEP_LOG_LEVEL: 'warn', NODE_OPTIONS: HEAP },
    logFile: join(directory, 'sidecar.log'),
  })
  await untilReady(child, async () => (await accepts(check)) && (await accepts(documents)))
  return child
}

function startLoad(place: Place) {
  const answers: Record<string, number> = {}
  const faults: unknown[] = []
  const abandoned: { destroy(): void }[] = []
  const client = connect(`127.0.0.1:${place.check}`)
  const ask = askers(place, client)
  const counts = { calls: 0, probes: 0, abandoned: 0 }
  const open = { calls: 0, probes: 0 }
  const noting = (kind: keyof typeof open, work: Promise<string>): void => {
    open[kind]++
    void work
      .then(
        answer => (answers[answer] = (answers[answer] ?? 0) + 1),
        (error: unknown) => faults.push(error),
      )
      .finally(() => open[kind]--)
  }
  const started = performance.now()
  /** As many as are due by now, however late the timer comes; on a machine that cannot keep up, fewer. */
  const owed = (perSecond: number, done: number): number =>
    Math.max(0, Math.floor(((performance.now() - started) / 1_000) * perSecond) - done)
  const timer = setInterval(() => {
    for (let n = Math.min(OPEN_MAX - open.calls, owed(CALLS_PER_SECOND, counts.calls)); n > 0; n--)
      noting('calls', ask.call(counts.calls++))
    for (let n = Math.min(OPEN_MAX - open.probes, owed(PROBES_PER_SECOND, counts.probes)); n > 0; n--)
      noting('probes', ask.probe(counts.probes++))
    for (let n = owed(ABANDONED_PER_SECOND, counts.abandoned); n > 0; n--) {
      counts.abandoned++
      abandoned.push(abandon(place.check))
    }
  }, 20)
  return {
    answers,
    faults,
    calls: () => counts.calls,
    probes: () => counts.probes,
    stop: async () => {
      clearInterval(timer)
      for (const one of abandoned) one.destroy()
      client.close()
    },
  }
}

/** An HTTP/2 connection that is opened as a prober would, and then forgotten. */
function abandon(port: number): { destroy(): void } {
  const session = connectHttp2(`http://127.0.0.1:${port}`)
  session.on('error', () => {})
  return session
}

function askers({ authority, check, documents }: Place, client: CheckClient) {
  const agent = newKey()
  const resource = `${PUBLIC_URL}/mcp/alice`
  const issue = (id: string, scope: string, params?: object) =>
    authority.issue({
      owner: 'alice',
      resource,
      key: agent,
      permissions: [{ resource_id: id, resource_scopes: [scope], exp: nowSeconds() + 1_000_000 }],
      ...(params === undefined
        ? {}
        : { operation: { tool: 'place_trade', params_s256: s256Json(params as never) } }),
    })
  const standing = issue('alice/portfolio', 'read')
  const bytesOf = (parts: CallParts): Buffer => {
    const { method, path, headers, body } = callOf(parts)
    const lines = [...headers].flatMap(([key, values]) =>
      values.map(value => ({ key, raw_value: Buffer.from(value) })),
    )
    return checkBytes({
      method,
      path,
      header_map: { headers: lines },
      ...(body.state === 'complete' ? { raw_body: body.bytes } : {}),
    })
  }
  const kinds: ((nth: number) => { parts: CallParts; wanted: number })[] = [
    () => ({ parts: { token: standing, signer: agent }, wanted: 200 }),
    () => ({ parts: { token: standing, signer: agent }, wanted: 200 }),
    () => ({ parts: {}, wanted: 401 }),
    () => ({ parts: { token: 'not.a.grant', signer: agent }, wanted: 401 }),
    nth => {
      const args = { symbol: 'VTI', qty: nth }
      const token = issue('alice/trades', 'trade', args)
      return { parts: { tool: 'place_trade', args, token, signer: agent }, wanted: 200 }
    },
    nth => ({ parts: { body: `{"nonsense": ${nth}` }, wanted: 400 }),
  ]
  return {
    call: async (nth: number): Promise<string> => {
      const { parts, wanted } = kinds[nth % kinds.length]!(nth)
      const answer = await client.check(bytesOf(parts), { deadline: Date.now() + DEADLINE_MS })
      const status = answer.denied_response?.status?.code ?? 200
      // An outage is truthful if the machine stood still; the caller judges how many there were.
      if (status !== wanted && status !== 503) throw new Error(`${wanted} was due: ${JSON.stringify(answer)}`)
      return String(status)
    },
    /**
     * gRPC health on a connection of its own, a connection that only comes and goes, or the page that
     * machines scrape.
     */
    probe: async (nth: number): Promise<string> => {
      if (nth % 3 === 0) return leave(check)
      if (nth % 3 === 1) return scrape(documents, nth)
      const prober = connect(`127.0.0.1:${check}`)
      try {
        const status = await prober.health('')
        if (status !== 1) throw new Error(`health says ${status}`)
        return 'serving'
      } finally {
        prober.close()
      }
    },
  }
}

async function scrape(port: number, nth: number): Promise<string> {
  const path = nth % 2 === 0 ? '/health' : '/metrics'
  const response = await fetch(`http://127.0.0.1:${port}${path}`, { headers: { connection: 'close' } })
  await response.arrayBuffer()
  if (response.status !== 200) throw new Error(`${path} says ${response.status}`)
  return path
}

function leave(port: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connectTcp(port, '127.0.0.1')
    socket.once('error', reject)
    socket.once('connect', () => {
      socket.destroy()
      resolve('left')
    })
  })
}
