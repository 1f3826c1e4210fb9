/** How soon LISTEN finds out that its server is gone, with the times of the product. Contract, "Events". */
import { it } from 'vitest'
import { listen } from '../../src/storage/core/listen.ts'
import { freshDatabase } from '../support/postgres.ts'
import { severableLink } from '../support/severable-link.ts'
import { until } from '../support/until.ts'

it('a listener whose server is gone without a word notices within 30 s, and is connected again', async () => {
  const database = await freshDatabase()
  const link = await severableLink(database.url)
  const heard: string[] = []
  let connects = 0
  const listener = await listen({
    url: link.url,
    channel: 'said',
    onNotify: payload => heard.push(payload),
    onConnect: () => connects++,
  })
  try {
    link.freeze()
    await until(() => connects === 2)
    await database.pool.query('SELECT pg_notify($1, $2)', ['said', 'after'])
    await until(() => heard.length === 1)
  } finally {
    await listener.close()
    await link.close()
    await database.close()
  }
})
