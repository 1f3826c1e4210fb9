/**
 * The story of an allowance, through a real Envoy and on a real Postgres: contract, "Policy vocabulary and
 * tiers"; an addition (docs/details/owner-api.md).
 */
import { expect, test } from 'vitest'
import { ALLOWANCE_STORY } from '../../src/dev/story/allowance-story.ts'
import { envoy } from '../support/envoy.ts'
import { describeWith } from '../support/requirement.ts'
import { startScene } from '../support/stack.ts'
import { startedOnce } from '../support/started.ts'

describeWith(await envoy(), 'the story of an allowance, through Envoy', found => {
  const scene = startedOnce(() => startScene({ envoy: found }))

  // One after the other: each step goes on from the one before.
  for (const step of ALLOWANCE_STORY)
    test(step.title, () => expect(step.walk(scene)).resolves.not.toEqual([]))
})
