/** What sidecars say in the process that waits for them. docs/decisions/0021-leases.md. */
import { describe, expect, it } from 'vitest'
import { listenTo, tellWord } from '../../src/storage/authority/lease-words.ts'

async function isHeard(all: Promise<void>): Promise<boolean> {
  return Promise.race([all.then(() => true), new Promise<false>(resolve => setImmediate(resolve, false))])
}

describe('words of sidecars', () => {
  it('are all there once each has said that it let go as often as it was asked', async () => {
    const { all, end } = listenTo([
      { id: 'one', asked: 3 },
      { id: 'other', asked: 1 },
    ])
    tellWord('one', 2)
    tellWord('other', 1)
    tellWord('other', 1)
    tellWord('stranger', 3)
    expect(await isHeard(all)).toBe(false)
    tellWord('one', 4)
    expect(await isHeard(all)).toBe(true)
    end()
  })

  it('are heard by each who waits, and of one that holds nothing any more whatever it was asked', async () => {
    const [first, second] = [listenTo([{ id: 'one', asked: 1 }]), listenTo([{ id: 'one', asked: 2 }])]
    tellWord('one', 1)
    expect(await Promise.all([first, second].map(({ all }) => isHeard(all)))).toEqual([true, false])
    first.end()
    tellWord('one', Infinity)
    expect(await isHeard(second.all)).toBe(true)
  })

  it('are not heard by one who listens no more', async () => {
    const { all, end } = listenTo([{ id: 'one', asked: 1 }])
    end()
    tellWord('one', 1)
    expect(await isHeard(all)).toBe(false)
  })
})
