/**
 * The story of an account that three hold at two authorities, through a real Envoy and on real Postgres:
 * contract, "Tally for a jointly held resource".
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openJointScene } from '../../src/dev/story/joint-scene.ts'
import { JOINT_STORY } from '../../src/dev/story/joint-story.ts'
import type { Scene } from '../../src/dev/story/scene.ts'
import type { Stack } from '../../src/dev/stack/stack.ts'
import { startTurnedTally, type TurnedTally } from '../../src/dev/stack/turned-tally.ts'
import { envoy } from '../support/envoy.ts'
import { emptyDatabase } from '../support/postgres.ts'
import { describeWith } from '../support/requirement.ts'
import { startStack } from '../support/stack.ts'

describeWith(await envoy(), 'the story of an account held jointly, through Envoy', found => {
  let databases: Awaited<ReturnType<typeof emptyDatabase>>[] = []
  let turned: TurnedTally
  let stack: Stack | undefined
  let scene: Scene

  beforeAll(async () => {
    databases = await Promise.all([emptyDatabase(), emptyDatabase()])
    const [tally, authority] = databases.map(({ url }) => url) as [string, string]
    turned = await startTurnedTally()
    stack = await startStack({ envoy: found, joint: { databases: { tally, authority }, turned } })
    scene = await openJointScene(stack)
  })
  afterAll(async () => {
    await scene?.close()
    await stack?.stop()
    await turned?.stop()
    await Promise.all(databases.map(one => one.close()))
  })

  // One after the other: each step goes on from the one before.
  for (const step of JOINT_STORY) test(step.title, () => expect(step.walk(scene)).resolves.not.toEqual([]))
})
