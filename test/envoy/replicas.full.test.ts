/**
 * Two authorities share one Postgres, and every call goes to the other one than the call before. contract,
 * "What the service does", "Permission ticket" (each rotation) and "Connection" (revocation);
 * docs/choices.md, "Permission ticket" (a repeat joins).
 */
import { connect } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openScene, firstEvent, type Scene } from '../../src/dev/story/scene.ts'
import type { Stack } from '../../src/dev/stack/stack.ts'
import { STORY } from '../../src/dev/story/story.ts'
import { readAll } from '../../src/owner/index.ts'
import { doorOf, startAlternatingDoor, type AuthorityDoors } from '../support/alternating-door.ts'
import { envoy } from '../support/envoy.ts'
import { describeWith } from '../support/requirement.ts'
import { startStack } from '../support/stack.ts'
import { until } from '../support/until.ts'

/** Whether nothing listens there any more. */
function isGone(origin: string): Promise<boolean> {
  const { hostname, port } = new URL(origin)
  return new Promise(resolve => {
    const socket = connect(Number(port), hostname)
    socket.once('connect', () => resolve(false)).once('error', () => resolve(true))
    socket.once('connect', () => socket.destroy())
  })
}

describeWith(await envoy(), 'two authorities on one Postgres', found => {
  let doors: AuthorityDoors
  let stack: Stack | undefined
  let scene: Scene

  const open = async () => {
    doors = { agents: await startAlternatingDoor(), owner: await startAlternatingDoor() }
    stack = await startStack({ envoy: found, authorities: 2, door: doorOf(doors) })
    scene = await openScene(stack)
  }
  const close = async () => {
    await scene?.close()
    await stack?.stop()
    await Promise.all([doors?.agents.close(), doors?.owner.close()])
  }
  /** Outright, between two answers: what a replica had answered must stand. */
  const kill = async (replica: number) => {
    await until(() => !doors.agents.busy[replica] && !doors.owner.busy[replica])
    const child = stack!.children.filter(({ name }) => name.startsWith('authority'))[replica]!
    process.kill(child.pid!, 'SIGKILL')
    await child.exited
    // On a busy machine it may still be connected to, and then answers nothing.
    for (const door of [doors.agents, doors.owner]) await until(() => isGone(door.replicas[replica]!))
  }

  describe('with every call going to the other one', () => {
    beforeAll(open)
    afterAll(close)

    for (const step of STORY) test(step.title, () => expect(step.walk(scene)).resolves.not.toEqual([]))

    test('both have answered agents, the enforcement point and the owner', () => {
      for (const door of [doors.agents, doors.owner]) expect(Math.min(...door.answered)).toBeGreaterThan(2) // how many polls a story takes is a matter of speed
      expect(Math.abs(doors.agents.answered[0]! - doors.agents.answered[1]!)).toBeLessThan(2)
    })

    test('an agent whose answer was lost negotiates anew and joins its waiting item', async () => {
      const other = await openScene(stack!)
      const waiting = async () =>
        (await readAll(other.owner.pending())).filter(({ handle }) => handle === other.handle)
      doors.agents.loseAnswer(({ path, body }) => path === '/token' && body.includes('claim_token='))
      await expect(other.startCall('portfolio_read').result).rejects.toMatchObject({ terminal: false })
      const [item] = await waiting()
      const again = other.startCall('portfolio_read')
      await firstEvent(again, 'waiting')
      expect(await waiting()).toMatchObject([{ family: item!.family }])
      await other.owner.decide(item!.family, 'approved')
      expect((await again.result).grant).toBeDefined()
      await other.close()
    })
  })

  describe.each([0, 1])('with replica %i killed while the owner is asked', replica => {
    beforeAll(open)
    afterAll(close)

    const held = STORY.findIndex(({ title }) => title.startsWith('She finds it')) + 1
    for (const step of STORY.slice(0, held))
      test(step.title, () => expect(step.walk(scene)).resolves.not.toEqual([]))
    test('one of them is killed', () => kill(replica))
    for (const step of STORY.slice(held))
      test(step.title, () => expect(step.walk(scene)).resolves.not.toEqual([]))
  })
})
