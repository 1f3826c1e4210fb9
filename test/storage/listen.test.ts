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

/** A listener through a link that can be cut, what it heard, and how often it connected. */
async function listening(beat: Partial<typeof soon> = {}) {
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
  return {
    link,
    heard,
    connects: () => connects,
    say: (what: string) => database.pool.query('SELECT pg_notify($1, $2)', ['said', what]),
    [Symbol.asyncDispose]: async () => {
      await listener.close()
      await link.close()
      await database.close()
    },
  }
}

it('a listener whose connection breaks is connected again, and hears what is said from then on', async () => {
  await using listener = await listening()
  const { link, heard, connects, say } = listener
  await say('before')
  await until(async () => heard.length === 1)
  link.cut()
  link.mend()
  await until(async () => connects() === 2)
  await say('after')
  await until(async () => heard.length === 2)
  expect(heard).toEqual(['before', 'after'])
})

it.each(rowsOfLayer(BEATS, ([, beat]) => beat === soon))(
  'a listener whose server is gone without a word notices by %s, and is connected again',
  async (_which, beat) => {
    await using listener = await listening(beat)
    const { link, heard, connects, say } = listener
    link.freeze()
    await until(() => connects() >= 2)
    // Said again and again, because a slow machine may take it for gone once more.
    await until(async () => {
      await say('after')
      return heard.length > 0
    })
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
