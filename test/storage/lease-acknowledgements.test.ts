/** What sidecars acknowledge in the process that waits for them. docs/decisions/0021-leases.md. */
import { describe, expect, it } from 'vitest'
import { acknowledge, acknowledgementsOf } from '../../src/storage/authority/lease-acknowledgements.ts'
import { asClientId, asOwner } from '../../src/wire/identifiers.ts'

const owner = asOwner('alice')
const client_id = asClientId('rs-1')
const asked = (id: string, times: number) => ({ client_id, id, asked: times })
const holder = (id: string) => ({ owner, client_id, id })

async function isResolved(all: Promise<void>): Promise<boolean> {
  return Promise.race([all.then(() => true), new Promise<false>(resolve => setImmediate(resolve, false))])
}

describe('acknowledgements', () => {
  it('are complete once each sidecar acknowledged as often as it was asked', async () => {
    const { all, isMissing, end } = acknowledgementsOf(owner, [asked('one', 3), asked('other', 1)])
    acknowledge(holder('one'), 2)
    acknowledge(holder('other'), 1)
    acknowledge(holder('other'), 1)
    expect([await isResolved(all), isMissing('one'), isMissing('other')]).toEqual([false, true, false])
    acknowledge(holder('one'), 4)
    expect([await isResolved(all), isMissing('one')]).toEqual([true, false])
    end()
  })

  it.each([
    ['another sidecar', { id: 'two' }],
    ['the same id of another resource server', { client_id: asClientId('rs-2') }],
    ['the same id of another owner', { owner: asOwner('bob') }],
  ])('of %s do not count', async (_, other) => {
    const { all, end } = acknowledgementsOf(owner, [asked('one', 1)])
    acknowledge({ ...holder('one'), ...other }, Infinity)
    expect(await isResolved(all)).toBe(false)
    end()
  })

  it('reach every act that waits, and one of a sidecar that ends counts for each question', async () => {
    const acts = [acknowledgementsOf(owner, [asked('one', 1)]), acknowledgementsOf(owner, [asked('one', 2)])]
    acknowledge(holder('one'), 1)
    expect(await Promise.all(acts.map(({ all }) => isResolved(all)))).toEqual([true, false])
    acts[0]!.end()
    acknowledge(holder('one'), Infinity)
    expect(await isResolved(acts[1]!.all)).toBe(true)
    acts[1]!.end()
  })

  it('do not reach an act that listens no more', async () => {
    const { all, end } = acknowledgementsOf(owner, [asked('one', 1)])
    end()
    acknowledge(holder('one'), 1)
    expect(await isResolved(all)).toBe(false)
  })
})
