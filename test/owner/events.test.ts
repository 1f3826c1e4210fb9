/** contract, "Events": the owner's stream, resumed however often the line breaks. */
import type { ServerResponse } from 'node:http'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { watchEvents, type OwnerEvent, type WatchOptions } from '../../src/owner/index.ts'
import { startScriptedOwnerApi, type ScriptedOwnerApi } from '../support/scripted-owner-api.ts'
import { newKey } from '../support/wire-samples.ts'
import type { Reply } from '../support/scripted-http.ts'

const issuer = 'https://as.example.com'
const key = newKey()
let api: ScriptedOwnerApi
let streams: ((response: ServerResponse) => void)[]
let otherwise: Reply
beforeEach(async () => {
  streams = []
  otherwise = { status: 204 }
  api = await startScriptedOwnerApi({ issuer, key }, () => {
    const stream = streams.shift()
    if (!stream) return otherwise
    return {
      write: response => {
        response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' })
        stream(response)
      },
    }
  })
})
afterEach(() => api.close())

async function watch(options: WatchOptions = {}, most = Infinity): Promise<OwnerEvent[]> {
  const seen: OwnerEvent[] = []
  for await (const event of watchEvents({ api: api.origin, issuer, key }, options)) {
    seen.push(event)
    if (seen.length >= most) break
  }
  return seen
}

const lastIds = () => api.received.map(one => one.headers['last-event-id'])

describe('the stream', () => {
  it('gives each event with its id, its kind and its data', async () => {
    streams.push(response =>
      response.end('retry: 1\nid: 4\nevent: pending\ndata: {"family":"fam_1"}\n\n: heartbeat\n\n'),
    )
    expect(await watch()).toEqual([{ id: '4', event: 'pending', data: { family: 'fam_1' } }])
  })

  it('is resumed after the last event seen, when it ends or breaks', async () => {
    streams.push(
      response => response.end('id: 4\nevent: pending\ndata: {}\n\n'),
      response => {
        response.write('id: 5\nevent: decided\ndata: {}\n\nid: 6\nevent: lost\ndata: {')
        setImmediate(() => response.destroy())
      },
      response => response.end('id: 6\nevent: found\ndata: {}\n\n'),
    )
    const states: string[] = []
    const events = await watch({ lastEventId: '3', onState: state => states.push(state.kind) })
    expect(events.map(event => event.event)).toEqual(['pending', 'decided', 'found'])
    expect(lastIds()).toEqual(['3', '4', '5', '6'])
    expect(states).toEqual(['open', 'reconnecting', 'open', 'reconnecting', 'open', 'reconnecting'])
  })

  it('is signed anew each time it is opened', async () => {
    streams.push(
      response => response.end(),
      response => response.end(),
    )
    await watch()
    expect(api.signatures.size).toBe(3)
  })

  it('is opened again after an outage of the service', async () => {
    let outage = true
    otherwise = { status: 503, body: { error: 'temporarily_unavailable', error_description: 'Soon.' } }
    const because: string[] = []
    const options: WatchOptions = {
      onState: state => {
        if (state.kind !== 'reconnecting') return
        because.push(state.because)
        if (!outage) return
        outage = false
        streams.push(response => response.end('id: 1\nevent: pending\ndata: {}\n\n'))
      },
    }
    expect(await watch(options, 1)).toHaveLength(1)
    expect(because).toEqual(['Soon.'])
  })

  it.each([
    [
      401,
      { error: 'invalid_credential', error_description: 'Revoked.' },
      { code: 'invalid_credential', detail: 'Revoked.' },
    ],
    [403, { error: 'forbidden' }, { code: 'forbidden' }],
    [200, '', { code: 'answer_malformed' }],
  ])('that is refused with %i %j ends the watch', async (status, body, expected) => {
    otherwise = { status, body }
    await expect(watch()).rejects.toMatchObject(expected)
    expect(api.received).toHaveLength(1)
  })

  it('ends when the caller looks away, and lets go of the line', async () => {
    let closed = false
    const stop = new AbortController()
    streams.push(response => {
      response.on('close', () => (closed = true))
      response.write('id: 1\nevent: pending\ndata: {}\n\n')
    })
    for await (const _ of watchEvents({ api: api.origin, issuer, key }, { signal: stop.signal })) stop.abort()
    await expect.poll(() => closed).toBe(true)
    expect(api.received).toHaveLength(1)
  })

  it('tells of a reset as of any event: then the lists are to be read afresh', async () => {
    streams.push(response => response.end('event: reset\nid: 90\ndata: {}\n\n'))
    expect(await watch({ lastEventId: '2' })).toEqual([{ id: '90', event: 'reset', data: {} }])
    expect(lastIds()).toEqual(['2', '90'])
  })
})
