/** WHATWG HTML §9.2.6 (contract, "Events"). */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { EventStreamReader, type ServerSentEvent } from '../../src/wire/event-stream.ts'
import { describeVectors } from '../support/vectors.ts'

function readAll(stream: string, chunkBytes = Infinity): ServerSentEvent[] {
  const reader = new EventStreamReader()
  const bytes = Buffer.from(stream)
  const events: ServerSentEvent[] = []
  for (let at = 0; at < bytes.length; at += chunkBytes) {
    events.push(...reader.read(bytes.subarray(at, at + chunkBytes)))
    if (chunkBytes === Infinity) break
  }
  return events
}

interface Case {
  stream: string
  events: { type: string; data: string; lastEventId: string }[]
}

describeVectors<{ cases: Case[] }>('sse.json', 'the examples of the standard', ({ cases }) => {
  it.each(cases)('$stream', ({ stream, events }) => {
    const expected = events.map(({ type, data, lastEventId }) => ({ type, data, id: lastEventId }))
    expect(readAll(stream)).toEqual(expected)
    expect(readAll(stream, 1)).toEqual(expected)
  })
})

describe('a stream', () => {
  it.each(['\n', '\r\n', '\r'])('may end its lines with %j', end => {
    const stream = ['id: 7', 'event: pending', 'data: a', 'data: b', '', 'data: c', '', ''].join(end)
    expect(readAll(stream)).toEqual([
      { type: 'pending', data: 'a\nb', id: '7' },
      { type: 'message', data: 'c', id: '7' },
    ])
  })

  it('may start with a byte order mark, and hold characters of several bytes', () => {
    expect(readAll('\ufeffdata: höchst – 統\n\n', 1)).toEqual([
      { type: 'message', data: 'höchst – 統', id: '' },
    ])
  })

  it('dispatches nothing for comments, for an id alone, or for an event that it ends within', () => {
    expect(readAll(': heartbeat\n\nid: 9\n\ndata: never\n')).toEqual([])
  })

  it('keeps the id of an event that has no data, and ignores one with NUL', () => {
    const reader = new EventStreamReader('4')
    reader.read(Buffer.from('id: 5\n\nid: 6\0\n\n'))
    expect(reader.lastEventId).toBe('5')
  })

  it('does not count the id of an event that it ends within as seen', () => {
    const reader = new EventStreamReader('4')
    reader.read(Buffer.from('id: 5\ndata: lost'))
    expect(reader.lastEventId).toBe('4')
  })

  it('says how long to wait before reconnecting, in digits only', () => {
    const reader = new EventStreamReader()
    reader.read(Buffer.from('retry: 1500\nretry: 2s\nretry:\n'))
    expect(reader.retryMilliseconds).toBe(1500)
  })

  it('is refused once an event grows beyond all measure', () => {
    const reader = new EventStreamReader()
    const more = Buffer.from(`data: ${'x'.repeat(1 << 20)}\n`)
    expect(() => {
      for (let i = 0; i < 8; i++) reader.read(more)
    }).toThrow('smaller events')
  })

  it('means the same wherever its bytes are cut', () => {
    const line = fc.constantFrom(
      'data: a',
      'data:b',
      'id: 1',
      'event: e',
      ': c',
      '',
      'data',
      'retry: 5',
      'data: é',
    )
    const end = fc.constantFrom('\n', '\r', '\r\n')
    fc.assert(
      fc.property(
        fc.array(fc.tuple(line, end), { maxLength: 12 }),
        fc.integer({ min: 1, max: 7 }),
        (lines, size) => {
          const stream = lines.flat().join('')
          expect(readAll(stream, size)).toEqual(readAll(stream))
        },
      ),
    )
  })
})
