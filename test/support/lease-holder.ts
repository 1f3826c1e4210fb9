/**
 * Owns a sidecar as an authority sees it: it holds a lease, renews it, and lets go when it is asked, by the
 * documented requests alone.
 */
import { EventStreamReader } from '../../src/wire/event-stream.ts'
import { parseLeaseMessage, type Lease } from '../../src/wire/resources/leases.ts'
import type { Reply, TestAuthority } from './authority.ts'
import { until } from './until.ts'

export interface LeaseHolder {
  lease: Lease
  /** How often it was asked to let go, as far as its stream said. */
  asked: () => number
  /** Resolves once its stream has ended. */
  ended: Promise<void>
  /** POST /leases/{id}. */
  say(json: object): Promise<Reply>
  /** Breaks its stream off, and says nothing. */
  drop(): void
}

interface Holding {
  owner?: string
  replaces?: string
  /** Whether it says by itself that it has let go, which it does at once; true when left out. */
  answers?: boolean
}

/** Registers a sidecar of `demo-tools` and follows its stream. Throws the answer if it was refused. */
export async function holdLease(
  authority: TestAuthority,
  { owner = 'alice', replaces, answers = true }: Holding = {},
): Promise<LeaseHolder> {
  const pat = await authority.pat(owner)
  const headers = { authorization: `Bearer ${pat}`, 'content-type': 'application/json' }
  const gone = new AbortController()
  const response = await fetch(`${authority.publicUrl}/leases`, {
    method: 'POST',
    headers,
    body: JSON.stringify(replaces === undefined ? {} : { replaces }),
    signal: gone.signal,
  })
  if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`)
  let lease: Lease | undefined
  let asked = 0
  const say = (json: object): Promise<Reply> =>
    authority.request('POST', `/leases/${lease!.id}`, { headers, body: JSON.stringify(json) })
  const reader = new EventStreamReader()
  const ended = (async () => {
    for await (const chunk of response.body!)
      for (const event of reader.read(chunk)) {
        const message = parseLeaseMessage(event)
        if (message?.type === 'lease') lease = message.lease
        if (message?.type !== 'invalidate') continue
        asked = message.asked
        if (answers) void say({ acknowledged: asked }).catch(() => undefined)
      }
  })().catch(() => undefined)
  await until(() => lease !== undefined)
  return { lease: lease!, asked: () => asked, ended, say, drop: () => gone.abort() }
}
