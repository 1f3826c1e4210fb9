/**
 * Owns the load processes of one scenario, as the runner sees them: forked, told what to do one thing at a
 * time, ended for certain.
 */
import { fork, type ChildProcess } from 'node:child_process'
import { join } from 'node:path'
import type { LoadOrder, LoadReply, RoundPart, Scenario, World } from './world.ts'

export interface LoadProcesses {
  pids: number[]
  prepare(calls: number): Promise<void>
  /** With a rate: an open loop at so many calls a second, all processes together. */
  run(seconds: number, callsPerSecond?: number): Promise<RoundPart[]>
  stop(): Promise<void>
}

const ENTRY = join(import.meta.dirname, 'load', 'main.ts')
/** The time limit for requests outside a round: opening, and making a corpus. */
const ORDER_MS_MAX = 60_000
/** Beyond its seconds, a round ends when the last call has been answered. */
const ROUND_GRACE_MS = 15_000

export interface LoadOptions {
  /** Calls in flight and connections, of all processes together. */
  inFlight: number
  connections: number
}

/** Forks the load processes of a scenario and opens it in each. */
export async function startLoad(
  scenario: Scenario,
  world: World,
  { inFlight, connections }: LoadOptions,
): Promise<LoadProcesses> {
  const count = scenario.processes
  const children = Array.from({ length: count }, () =>
    fork(ENTRY, { serialization: 'advanced', execArgv: [] }),
  )
  const each = (order: LoadOrder, withinMs: number) =>
    Promise.all(children.map(child => tell(child, order, withinMs, scenario.name)))
  const stop = async (): Promise<void> => {
    await Promise.all(children.map(end))
  }
  try {
    const share = { inFlight: Math.ceil(inFlight / count), connections: Math.ceil(connections / count) }
    await each({ order: 'open', scenario: scenario.name, world, share }, ORDER_MS_MAX)
  } catch (error) {
    await stop()
    throw error
  }
  return {
    pids: children.flatMap(({ pid }) => pid ?? []),
    prepare: async calls =>
      void (await each({ order: 'prepare', calls: Math.ceil(calls / count) }, ORDER_MS_MAX)),
    run: async (seconds, rate) => {
      const callsPerSecond = rate === undefined ? undefined : rate / count
      const parts = await each({ order: 'run', seconds, callsPerSecond }, seconds * 1_000 + ROUND_GRACE_MS)
      return parts.map(part => part!)
    },
    stop,
  }
}

// oxlint-disable-next-line eslint/max-params -- whom, what, how long to wait, and for what to name in a fault
function tell(
  child: ChildProcess,
  order: LoadOrder,
  withinMs: number,
  name: string,
): Promise<RoundPart | undefined> {
  return new Promise((resolve, reject) => {
    const settle = (act: () => void): void => {
      clearTimeout(timer)
      child.off('message', heard).off('exit', ended)
      act()
    }
    const fail = (why: string): void => settle(() => reject(new Error(`${name}, ${order.order}: ${why}`)))
    const heard = (message: LoadReply): void => {
      if ('failed' in message) fail(message.failed)
      else settle(() => resolve(message.done))
    }
    const ended = (): void => fail('the load process ended')
    const timer = setTimeout(() => fail(`not done within ${withinMs / 1_000} s`), withinMs)
    child.on('message', heard).on('exit', ended)
    child.send(order)
  })
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exited = new Promise(resolve => child.once('exit', resolve))
  child.kill('SIGKILL')
  await exited
}
