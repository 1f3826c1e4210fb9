/**
 * How long the documents of an operator are waited for, by a clock that the test moves. Contract: "Operator
 * documents".
 */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import {
  createOperatorDocuments,
  type OperatorFindings,
} from '../../src/authority/agents/operator-documents.ts'
import { createOutbound, type Outbound } from '../../src/http/outbound/outbound.ts'
import { createRemoteDocuments } from '../../src/http/outbound/remote-documents.ts'
import { REMOTE_MS_MAX } from '../../src/surface/agents/identity.ts'

const ORIGIN = 'https://bots.example'
let outbound: Outbound

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'] })
  outbound = createOutbound({ devLoopback: false })
})
afterEach(async () => {
  vi.useRealTimers()
  await outbound.close()
})

describe('Documents that never come', () => {
  it('are waited for three seconds in all, not for each', async () => {
    const asked: string[] = []
    const never: Outbound = {
      ...outbound,
      request: ({ url }) => {
        asked.push(url)
        return new Promise(() => undefined)
      },
    }
    const documents = createRemoteDocuments({ outbound: never, clock: () => Date.now() })
    const operators = createOperatorDocuments(documents, () => Date.now() / 1_000)
    let found: OperatorFindings | undefined
    void operators
      .lookUp(
        { client_id: `${ORIGIN}/client.json`, signature_agent: undefined, jkts: ['jkt'] },
        { deadline: Date.now() + REMOTE_MS_MAX, favoured: false },
      )
      .then(findings => (found = findings))
    await vi.advanceTimersByTimeAsync(2_999)
    expect(asked).toHaveLength(2)
    expect(found).toBeUndefined()
    await vi.advanceTimersByTimeAsync(1)
    expect(found!.notes).toEqual([
      'accountability: the client document did not come in time',
      'accountability: the key directory did not come in time',
    ])
  })
})
