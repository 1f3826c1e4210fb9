/**
 * The story of the demo through a tool server that enforces by itself, on a real Postgres. contract, "What
 * the service does".
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openScene, type Scene } from '../../src/dev/story/scene.ts'
import type { Stack } from '../../src/dev/stack/stack.ts'
import { STORY } from '../../src/dev/story/story.ts'
import { startStack } from '../support/stack.ts'

describe('the story, through an embedded MCP server', () => {
  let stack: Stack | undefined
  let scene: Scene

  beforeAll(async () => {
    stack = await startStack({})
    scene = await openScene(stack)
  })
  afterAll(async () => {
    await scene?.close()
    await stack?.stop()
  })

  // One after the other: each step goes on from the one before.
  for (const step of STORY) test(step.title, () => expect(step.walk(scene)).resolves.not.toEqual([]))
})
