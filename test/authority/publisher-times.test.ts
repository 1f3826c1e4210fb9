/**
 * When an answer about a resource in a trusted network comes, by a clock that the test moves. Contract:
 * "Resource server establishment: POST `/rs/register`".
 */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import {
  createPublishers,
  INSIDE_FAILURE_DELAY_MS,
  type Publisher,
  type Publishers,
} from '../../src/authority/registry/publishers.ts'
import {
  createPublishedResources,
  PublicationFault,
  type Patience,
} from '../../src/authority/registry/published-resources.ts'
import { createOutbound } from '../../src/http/outbound/outbound.ts'
import { createRemoteDocuments } from '../../src/http/outbound/remote-documents.ts'
import { sourceShares } from '../../src/http/source-share.ts'
import { createLogger } from '../../src/http/telemetry/log.ts'

const RESOURCE = 'https://tools.example/mcp/alice'
const SOURCE = '203.0.113.7'
const FAILURES_PER_MINUTE = 2
let publishers: Publishers

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'] })
  const publisher = (): Publisher => {
    const outbound = createOutbound({ devLoopback: false })
    const documents = createRemoteDocuments({ outbound, clock: () => Date.now() })
    return { outbound, published: createPublishedResources(documents, 'https://as.example') }
  }
  publishers = createPublishers(publisher(), {
    ...publisher(),
    isPublic: async () => false,
    shares: sourceShares(FAILURES_PER_MINUTE),
    log: createLogger({ name: 'test', level: 'fatal' }),
  })
})
afterEach(async () => {
  vi.useRealTimers()
  await publishers.close()
})

/** What came of the work so far: what it brought, or what was thrown; undefined while nobody is told. */
function outcomeOf(work: (patience: Patience) => Promise<unknown>): () => unknown {
  let outcome: unknown
  const asking = { deadline: Date.now() + 60_000, favoured: false, source: SOURCE }
  void publishers
    .at(RESOURCE, asking, (_publisher, patience) => work(patience))
    .catch((error: unknown) => error)
    .then(brought => (outcome = brought))
  return () => outcome
}

const failing = async (): Promise<never> => {
  throw new PublicationFault('document_status', 'The document was answered with 404.')
}
const FAILURE = { reason: 'not_established', passing: true }

describe('An answer about a resource in a trusted network', () => {
  it.each([0, 1_000, 2_500])(
    'that fails after %i ms is given three seconds after the start, no sooner and no later',
    async failsAfterMs => {
      const outcome = outcomeOf(async () => {
        await new Promise(resolve => setTimeout(resolve, failsAfterMs))
        return failing()
      })
      await vi.advanceTimersByTimeAsync(INSIDE_FAILURE_DELAY_MS - 1)
      expect(outcome()).toBeUndefined()
      await vi.advanceTimersByTimeAsync(1)
      expect(outcome()).toMatchObject(FAILURE)
    },
  )

  it('leaves what is fetched for it less time than that', async () => {
    let deadline = Infinity
    const since = Date.now()
    outcomeOf(async patience => (deadline = patience.deadline))
    await vi.advanceTimersByTimeAsync(0)
    expect(deadline - since).toBeLessThan(INSIDE_FAILURE_DELAY_MS)
  })

  it('that is established is given at once', async () => {
    const outcome = outcomeOf(async () => 'established')
    await vi.advanceTimersByTimeAsync(0)
    expect(outcome()).toBe('established')
  })

  it('is refused at once to a source that has failed too often', async () => {
    const outcomes = Array.from({ length: FAILURES_PER_MINUTE }, () => outcomeOf(failing))
    const refused = outcomeOf(failing)
    await vi.advanceTimersByTimeAsync(0)
    expect(refused()).toMatchObject({ code: 'request_denied', status: 429 })
    expect(outcomes.map(outcome => outcome())).toEqual(outcomes.map(() => undefined))
    await vi.advanceTimersByTimeAsync(INSIDE_FAILURE_DELAY_MS)
    for (const outcome of outcomes) expect(outcome()).toMatchObject(FAILURE)
  })
})
