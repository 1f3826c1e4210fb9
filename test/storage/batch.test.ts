import { describe, expect, it } from 'vitest'
import { isOutage } from '../../src/storage/core/database.ts'
import { gathering, gatheringOf, onceEach, type GatheringOptions } from '../../src/storage/core/batch.ts'

/** A look-up whose statements are answered when the test says so. */
function scene(
  {
    owner = () => 'one',
    ...bounds
  }: Partial<GatheringOptions<number>> & { together: number; atOnce: number } = {
    together: 100,
    atOnce: 1,
  },
) {
  const sent: { keys: number[]; answer: () => void; fail: (error: Error) => void }[] = []
  const look = gathering<number, string>(
    keys => {
      const { promise, resolve, reject } = Promise.withResolvers<string[]>()
      sent.push({ keys, answer: () => resolve(keys.map(key => `answer ${key}`)), fail: reject })
      return promise
    },
    { owner, ...bounds },
  )
  const turn = () => new Promise(resolve => setImmediate(resolve))
  return { sent, look, turn }
}

describe('Look-ups that come at the same time are one statement', () => {
  it('and each gets its own answer', async () => {
    const { sent, look, turn } = scene()
    const looks = [1, 2, 3].map(look)
    await turn()
    expect(sent.map(({ keys }) => keys)).toEqual([[1, 2, 3]])
    sent[0]!.answer()
    expect(await Promise.all(looks)).toEqual(['answer 1', 'answer 2', 'answer 3'])
  })

  it('none joins a statement that was sent before it was asked for', async () => {
    const { sent, look, turn } = scene()
    const early = look(1)
    await turn()
    const late = [look(2), look(3)]
    await turn()
    expect(sent.map(({ keys }) => keys)).toEqual([[1]])
    sent[0]!.answer()
    expect(await early).toBe('answer 1')
    await turn()
    expect(sent.map(({ keys }) => keys)).toEqual([[1], [2, 3]])
    sent[1]!.answer()
    expect(await Promise.all(late)).toEqual(['answer 2', 'answer 3'])
  })

  it('those of another owner go in a statement of their own, and in the order in which they came', async () => {
    const owner = (key: number) => (key % 2 === 0 ? 'even' : 'odd')
    const { sent, look, turn } = scene({ together: 100, atOnce: 1, owner })
    const looks = [1, 2, 3, 4].map(look)
    await turn()
    expect(sent.map(({ keys }) => keys)).toEqual([[1, 3]])
    sent[0]!.answer()
    await looks[0]
    await turn()
    expect(sent.map(({ keys }) => keys)).toEqual([
      [1, 3],
      [2, 4],
    ])
    sent[1]!.answer()
    expect(await Promise.all(looks)).toHaveLength(4)
  })

  it('several statements go at once, and none is longer than it may be', async () => {
    const { sent, look, turn } = scene({ together: 2, atOnce: 4 })
    const looks = [1, 2, 3, 4, 5].map(look)
    await turn()
    expect(sent.map(({ keys }) => keys)).toEqual([
      [1, 2],
      [3, 4],
    ])
    sent[1]!.answer()
    await looks[2]
    await turn()
    expect(sent[2]?.keys).toEqual([5])
    for (const { answer } of sent) answer()
    expect(await Promise.all(looks)).toHaveLength(5)
  })

  it('one owner has at most half of the statements at once, and another who comes later need not wait for hers', async () => {
    const owner = (key: number) => (key < 10 ? 'alice' : 'bob')
    const { sent, look, turn } = scene({ together: 1, atOnce: 4, owner })
    const hers = [1, 2, 3].map(look)
    await turn()
    const his = look(10)
    await turn()
    expect(sent.map(({ keys }) => keys)).toEqual([[1], [2], [10]])
    sent[2]!.answer()
    expect(await his).toBe('answer 10')
    await turn()
    expect(sent).toHaveLength(3)
    sent[0]!.answer()
    await hers[0]
    await turn()
    expect(sent[3]?.keys).toEqual([3])
    for (const { answer } of sent) answer()
    expect(await Promise.all(hers)).toHaveLength(3)
  })

  it('one group has as many statements at once as it may, and another group of the same owner goes meanwhile', async () => {
    const group = (key: number) => (key < 10 ? 'one' : 'other')
    const { sent, look, turn } = scene({ together: 1, atOnce: 8, ofGroupAtOnce: 1, group })
    const looks = [1, 2, 10].map(look)
    await turn()
    expect(sent.map(({ keys }) => keys)).toEqual([[1], [10]])
    sent[0]!.answer()
    await looks[0]
    await turn()
    expect(sent[2]?.keys).toEqual([2])
    for (const { answer } of sent) answer()
    expect(await Promise.all(looks)).toHaveLength(3)
  })

  it('a failure is that of all who were in it, and of nobody else', async () => {
    const { sent, look, turn } = scene()
    const failing = [look(1), look(2)]
    await turn()
    const other = look(3)
    sent[0]!.fail(new Error('the server went away'))
    expect((await Promise.allSettled(failing)).map(({ status }) => status)).toEqual(['rejected', 'rejected'])
    await turn()
    sent[1]!.answer()
    expect(await other).toBe('answer 3')
  })

  it('of several that Postgres refuses each goes again by itself, and fails by itself', async () => {
    const { sent, look, turn } = scene()
    const settled = Promise.allSettled([look(1), look(2), look(3)])
    await turn()
    sent[0]!.fail(sqlError('23505'))
    await turn()
    sent[1]!.answer()
    await turn()
    sent[2]!.fail(sqlError('23505'))
    await turn()
    sent[3]!.answer()
    expect((await settled).map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
    expect(sent.map(({ keys }) => keys)).toEqual([[1, 2, 3], [1], [2], [3]])
  })

  it('those that go again by themselves are lost together if the server is lost meanwhile', async () => {
    const { sent, look, turn } = scene()
    const settled = Promise.allSettled([look(1), look(2), look(3)])
    await turn()
    sent[0]!.fail(sqlError('23505'))
    await turn()
    sent[1]!.fail(sqlError('ECONNRESET'))
    expect((await settled).map(one => one.status === 'rejected' && isOutage(one.reason))).toEqual([
      true,
      true,
      true,
    ])
    expect(sent.map(({ keys }) => keys)).toEqual([[1, 2, 3], [1]])
  }, 12_000)

  it.each([
    '08006',
    '57014',
    '57P01',
    'ECONNRESET',
    'EPIPE',
    'ENETUNREACH',
    'ENETDOWN',
    'EHOSTDOWN',
    'ERR_STREAM_DESTROYED',
    'ERR_SSL_BAD_RECORD_TYPE',
  ])('what was lost on its way (%s) is not sent again: it may have been done', async code => {
    const { sent, look, turn } = scene()
    const looks = [look(1), look(2)]
    await turn()
    sent[0]!.fail(sqlError(code))
    expect((await Promise.allSettled(looks)).map(({ status }) => status)).toEqual(['rejected', 'rejected'])
    await turn()
    expect(sent).toHaveLength(1)
  })

  it('what waits too long for those before it is an outage, and is not sent when there is room again', async () => {
    const { sent, look, turn } = scene({ together: 1, atOnce: 1, waitMs: 20 })
    const looks = [look(1), look(2), look(3)]
    const late = await Promise.allSettled(looks.slice(1))
    expect(late.map(one => one.status === 'rejected' && isOutage(one.reason))).toEqual([true, true])
    sent[0]!.answer()
    expect(await looks[0]).toBe('answer 1')
    const later = look(4)
    await turn()
    expect(sent.map(({ keys }) => keys)).toEqual([[1], [4]])
    sent[1]!.answer()
    expect(await later).toBe('answer 4')
  }, 12_000)

  it('the same key asked for twice is looked up twice: nothing is remembered', async () => {
    const { sent, look, turn } = scene()
    const looks = [look(1), look(1)]
    await turn()
    expect(sent[0]?.keys).toEqual([1, 1])
    sent[0]!.answer()
    expect(await Promise.all(looks)).toEqual(['answer 1', 'answer 1'])
  })
})

describe('Whoever asks of several databases or transactions', () => {
  it('asks each in a statement of its own', async () => {
    const sent: [object, number[]][] = []
    const look = gatheringOf<object, number, number>(
      async (source, keys) => {
        sent.push([source, keys])
        return keys
      },
      { owner: () => 'one', together: 100, atOnce: 1 },
    )
    const [one, other] = [{}, {}]
    expect(await Promise.all([look(one, 1), look(other, 2), look(one, 3)])).toEqual([1, 2, 3])
    expect(sent).toEqual([
      [one, [1, 3]],
      [other, [2]],
    ])
    expect(sent[0]![0]).toBe(one)
  })

  it('asks once what is asked alike in one statement', async () => {
    const sent: string[][] = []
    const look = onceEach<object, string, string>(
      async (_source, keys) => {
        sent.push(keys)
        return keys.map(key => `answer ${key}`)
      },
      key => key.toLowerCase(),
    )
    expect(await look({}, ['a', 'b', 'A'])).toEqual(['answer A', 'answer b', 'answer A'])
    expect(sent).toEqual([['A', 'b']])
  })
})

function sqlError(code: string): Error {
  return Object.assign(new Error('refused'), { code })
}
