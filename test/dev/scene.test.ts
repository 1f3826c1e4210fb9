/** How a step of a story says that a call did not end as it should: contract, "Parties". */
import { describe, expect, it } from 'vitest'
import { AgentError } from '../../src/agent/index.ts'
import { expectDenied, type RunningCall } from '../../src/dev/story/scene.ts'

const failed = (cause: Error): RunningCall => ({ events: [], result: Promise.reject(cause) })

describe('A call of a story that must be denied', () => {
  it('gives the sentence that its agent got', async () => {
    const denied = new AgentError('request_denied', { status: 403, detail: 'She said no.' })
    expect(await expectDenied(failed(denied))).toBe('She said no.')
  })

  it('and failed otherwise ends the step with the cause', async () => {
    const cause = new TypeError('fetch failed')
    await expect(expectDenied(failed(cause))).rejects.toMatchObject({ name: 'StoryFault', cause })
  })
})
