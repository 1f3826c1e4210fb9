/** Streams to sidecars that hold leases, while Postgres is away. docs/choices.md, ADR 0021. */
import { expect, it } from 'vitest'
import { createLeaseStreams } from '../../src/authority/protection/lease-streams.ts'
import { openDatabase } from '../../src/storage/authority/database.ts'
import { asOwner } from '../../src/wire/identifiers.ts'
import { until } from '../support/until.ts'

it('one line tells that sidecars cannot be asked, however often it is tried', async () => {
  const database = openDatabase({ url: 'postgres://nobody@127.0.0.1:1/none', poolMax: 1 })
  let tried = 0
  let lines = 0
  const log = { warn: () => lines++, error: () => lines++ }
  const connect = database.pool.connect.bind(database.pool)
  database.pool.connect = (...given: unknown[]) => {
    tried++
    return connect(...(given as [])) as never
  }
  type Needed = Parameters<typeof createLeaseStreams>[0]
  const needed = { database, log, announcements: { watchLeases: () => () => undefined } } as unknown as Needed
  const streams = createLeaseStreams(needed, { streamsMax: 1 })
  const closing = new AbortController()
  const stream = { closed: closing.signal, end: () => closing.abort() } as Parameters<
    typeof streams.follow
  >[0]['stream']
  const followed = streams.follow({ owner: asOwner('alice'), id: 'lease', stream })
  await until(() => tried > 3)
  expect(lines).toBe(1)
  streams.end()
  await followed
  await database.close()
})
