/**
 * The story of the demo, through a real Envoy and on a real Postgres. contract, "What the service does" and
 * "Behaviour that must hold".
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openScene, type Scene } from '../../src/dev/story/scene.ts'
import type { Stack } from '../../src/dev/stack/stack.ts'
import { STORY } from '../../src/dev/story/story.ts'
import { envoys } from '../support/envoy.ts'
import { describeWith } from '../support/requirement.ts'
import { startStack } from '../support/stack.ts'

for (const { title, envoy } of await envoys()) {
  describeWith(envoy, `the story, through ${title}`, found => {
    let stack: Stack | undefined
    let scene: Scene

    beforeAll(async () => {
      stack = await startStack({ envoy: found })
      scene = await openScene(stack)
    })
    afterAll(async () => {
      await scene?.close()
      await stack?.stop()
    })

    // One after the other: each step goes on from the one before.
    for (const step of STORY) test(step.title, () => expect(step.walk(scene)).resolves.not.toEqual([]))
  })
}
