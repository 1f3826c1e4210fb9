/**
 * Owns calls that go on while something is done to the stack, and their results. contract, "Authorized call":
 * what should pass passes, and nothing else.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { Grant } from '../../src/agent/index.ts'
import { callByHand, refusalIn, type RawCredential, type RawCall } from '../../src/dev/story/raw-call.ts'
import { firstEvent, type Scene } from '../../src/dev/story/scene.ts'
import type { Stack } from '../../src/dev/stack/stack.ts'
import type { JsonObject } from '../../src/wire/json.ts'

/** Calls that go on until the end, and the results of each kind. */
export interface Load {
  /** The number of results of each kind so far. */
  tally: Record<string, Record<string, number>>
  /** Makes one call and counts its result. */
  call(kind: string, tool: string, credential?: RawCredential, args?: JsonObject): Promise<void>
  /** Does the work again and again, a little after each time: the load itself, not a wait for anything. */
  keep(work: () => Promise<void>, pauseMs?: number): void
  /** Ends the callers, and answers the tally. */
  end(): Promise<Load['tally']>
}

/** Begins with no caller. */
export function startLoad({ resource }: Pick<Stack, 'resource'>): Load {
  const tally: Load['tally'] = {}
  const callers: Promise<void>[] = []
  const ending = new AbortController()
  return {
    tally,
    call: async (kind, tool, credential, args) => {
      const outcome = await outcomeOf({ resource, tool, arguments: args }, credential)
      const counts = (tally[kind] ??= {})
      counts[outcome] = (counts[outcome] ?? 0) + 1
    },
    keep: (work, pauseMs = 20) => {
      const caller = async () => {
        while (!ending.signal.aborted) {
          await work()
          await delay(pauseMs)
        }
      }
      callers.push(caller())
    },
    end: async () => {
      ending.abort()
      await Promise.all(callers)
      return tally
    },
  }
}

/** `200`, or a status with the word of refusal, or why there was no answer. */
export function outcomeOf(call: RawCall, credential?: RawCredential): Promise<string> {
  return callByHand(call, credential).then(
    answer => [answer.status, refusalIn(answer).error].filter(Boolean).join(' '),
    (error: unknown) => `no answer: ${String(error)}`,
  )
}

/** How many calls a sidecar has judged since it was started. */
export async function decided({ documentPorts }: Stack, sidecar: number): Promise<number> {
  const text = await (await fetch(`http://127.0.0.1:${documentPorts[sidecar]}/metrics`)).text()
  const lines = text.matchAll(/^usher_decisions_total\{.*\} (\d+)/gm)
  return [...lines].reduce((sum, [, count]) => sum + Number(count), 0)
}

/** A grant that the agent has negotiated, the owner approved, and nobody used yet. */
export async function approvedGrant(scene: Scene, tool: string, args?: object): Promise<Grant> {
  const stopping = new AbortController()
  const onEvent = ({ type }: { type: string }) => {
    if (type === 'granted') stopping.abort()
  }
  const call = scene.startCall(tool, args, { signal: stopping.signal, onEvent })
  const { family } = await firstEvent(call, 'waiting')
  await scene.owner.decide(family, 'approved')
  const { grant } = await firstEvent(call, 'granted')
  await call.result.catch(() => undefined)
  return grant
}
