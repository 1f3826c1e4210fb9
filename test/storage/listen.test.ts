/** LISTEN outlives the connection it stands on. Contract, "Events". */
import { expect, it } from 'vitest'
import { listen } from '../../src/storage/core/listen.ts'
import { rowsOfLayer } from '../support/layer.ts'
import { freshDatabase } from '../support/postgres.ts'
import { severableLink } from '../support/severable-link.ts'
import { until } from '../support/until.ts'

const soon = { beatMs: 50, answerMs: 2_000 }
/** How it looks after its server. The product looks every 10 s, and waits 5 s. */
const BEATS: [string, Partial<typeof soon>][] = [
  ['its beat', soon],
  ['the beat of the product', {}],
]

it('a listener whose connection breaks is connected again, and hears what is said from then on', async () => {
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
    const say = (what: string) => database.pool.query('SELECT pg_notify($1, $2)', ['said', what])
    await say('before')
    await until(async () => heard.length === 1)
    link.cut()
    link.mend()
    await until(async () => connects === 2)
    await say('after')
    await until(async () => heard.length === 2)
    expect(heard).toEqual(['before', 'after'])
  } finally {
    await listener.close()
    await link.close()
    await database.close()
  }
})

it.each(rowsOfLayer(BEATS, ([, beat]) => beat === soon))(
  'a listener whose server is gone without a word notices by %s, and is connected again',
  async (_which, beat) => {
    const database = await freshDatabase()
    const link = await severableLink(database.url)
    const heard: string[] = []
    let connects = 0
    const listener = await listen({
      url: link.url,
      channel: 'said',
      onNotify: payload => heard.push(payload),
      onConnect: () => connects++,
      ...beat,
    })
    try {
      link.freeze()
      await until(() => connects >= 2)
      // Said again and again, because a slow machine may take it for gone once more.
      await until(async () => {
        await database.pool.query('SELECT pg_notify($1, $2)', ['said', 'after'])
        return heard.length > 0
      })
    } finally {
      await listener.close()
      await link.close()
      await database.close()
    }
  },
)

it('a listener that cannot reach its server at the start fails, and does not wait for ever', async () => {
  const database = await freshDatabase()
  const link = await severableLink(database.url)
  link.silence()
  try {
    const listening = listen({ url: link.url, channel: 'said', onNotify: () => undefined, ...soon })
    await expect(listening).rejects.toThrow(/timeout/)
  } finally {
    await link.close()
    await database.close()
  }
}, 20_000)
