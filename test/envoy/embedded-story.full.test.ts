/**
 * The story of the demo through a tool server that enforces by itself, on a real Postgres. contract, "What
 * the service does".
 */
import { describe, expect, test } from 'vitest'
import { STORY } from '../../src/dev/story/story.ts'
import { startScene } from '../support/stack.ts'
import { startedOnce } from '../support/started.ts'

describe('the story, through an embedded MCP server', () => {
  const scene = startedOnce(() => startScene({}))

  // One after the other: each step goes on from the one before.
  for (const step of STORY) test(step.title, () => expect(step.walk(scene)).resolves.not.toEqual([]))
})
