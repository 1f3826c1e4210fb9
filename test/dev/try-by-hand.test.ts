/** contract, "What the service does": what the demo leaves for a person to try. */
import { expect, test } from 'vitest'
import { afterTheStory, tryByHand } from '../../src/dev/try-by-hand.ts'
import type { Stack } from '../../src/dev/stack.ts'

test('names the line that adds the bridge to a client, also where it ends after the story', () => {
  const stack = { resource: 'http://127.0.0.1:8080/mcp/alice', toolServer: { port: 1 } } as Stack
  const line = `\n  usher agent bridge config --client claude-code ${stack.resource} --write`
  expect(tryByHand(stack, 'try.sh', 'http://127.0.0.1:9/#token=x')).toContain(line)
  expect(afterTheStory(stack)).toContain(line)
})
