/**
 * The story of the demo, through a real Envoy and on a real Postgres. contract, "What the service does" and
 * "Behaviour that must hold".
 */
import { expect, test } from 'vitest'
import { STORY } from '../../src/dev/story/story.ts'
import { envoys } from '../support/envoy.ts'
import { describeWith } from '../support/requirement.ts'
import { startScene } from '../support/stack.ts'
import { startedOnce } from '../support/started.ts'

for (const { title, envoy } of await envoys()) {
  describeWith(envoy, `the story, through ${title}`, found => {
    const scene = startedOnce(() => startScene({ envoy: found }))

    // One after the other: each step goes on from the one before.
    for (const step of STORY) test(step.title, () => expect(step.walk(scene)).resolves.not.toEqual([]))
  })
}
