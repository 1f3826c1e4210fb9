/** Early polls that a server holds: contract, "Permission ticket" (awaiting-owner). */
import { describe, expect, it } from 'vitest'
import { PollPlaces } from '../../src/surface/token/poll-places.ts'

describe('The places of early polls', () => {
  it('are so many; above that, a poll is answered at once, until one of them ends', async () => {
    const places = new PollPlaces(2)
    const [first, second] = [Promise.withResolvers<string>(), Promise.withResolvers<string>()]
    const polls = [places.hold(() => first.promise, 'early'), places.hold(() => second.promise, 'early')]
    expect(await places.hold(async () => 'decided', 'early')).toBe('early')
    first.resolve('decided')
    expect(await polls[0]).toBe('decided')
    expect(await places.hold(async () => 'decided', 'early')).toBe('decided')
    second.resolve('decided')
    expect(await polls[1]).toBe('decided')
  })

  it('are free again if the wait failed', async () => {
    const places = new PollPlaces(1)
    await expect(places.hold(() => Promise.reject(new Error('an outage')), 'early')).rejects.toThrow(
      'an outage',
    )
    expect(await places.hold(async () => 'decided', 'early')).toBe('decided')
  })

  it('are counted for each server by itself', async () => {
    const [full, other] = [new PollPlaces(1), new PollPlaces(1)]
    const poll = Promise.withResolvers<string>()
    const taken = full.hold(() => poll.promise, 'early')
    expect(await other.hold(async () => 'decided', 'early')).toBe('decided')
    poll.resolve('decided')
    expect(await taken).toBe('decided')
  })
})
