/**
 * WHATWG HTML §9.2.6 (contract, "Events"; MCP, Streamable HTTP): the lines of an event stream end in LF, CR
 * or CR LF, and may be cut anywhere. An answer of the bridge's resources is bounded by event, not by stream.
 */
import type { ServerResponse } from 'node:http'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { createAgent } from '../../../src/agent/index.ts'
import { readAcceptedTerms } from '../../../src/agent/bridge/negotiation/terms.ts'
import { callByHand, toolText } from '../../../src/dev/story/raw-call.ts'
import { bridgeFolder } from '../../support/bridge.ts'
import { CALLED, startScriptedTools } from '../../support/scripted-tools.ts'
import { startedForEach } from '../../support/started.ts'
import { newKey } from '../../support/wire-samples.ts'

const MIB = 1024 * 1024
const ENDS = [
  ['LF', '\n'],
  ['CR', '\r'],
  ['CR LF', '\r\n'],
] as const

const tools = startedForEach(startScriptedTools)

/** Writes the parts one after the other, each as a chunk of its own. */
function stream(response: ServerResponse, parts: string[]): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  const next = (): void => {
    const part = parts.shift()
    if (part === undefined) return void response.end()
    response.write(part, () => setImmediate(next))
  }
  next()
}
const log = (data: string): string =>
  JSON.stringify({ jsonrpc: '2.0', method: 'notifications/message', params: { level: 'info', data } })
const answer = (id: unknown): string => JSON.stringify({ jsonrpc: '2.0', id, result: CALLED })
/** A priming event, a comment, a log in two lines of data, and the answer. */
const answered = (id: unknown, end: string): string => {
  const [first, second] = [log('a').slice(0, 17), log('a').slice(17)]
  return [
    'id: 1',
    'retry: 100',
    'data:',
    '',
    ': ping',
    `data: ${first}`,
    `data: ${second}`,
    '',
    `data: ${answer(id)}`,
    '',
    '',
  ].join(end)
}
const cutEvery = (text: string, length: number): string[] =>
  Array.from({ length: Math.ceil(text.length / length) }, (_, at) =>
    text.slice(at * length, (at + 1) * length),
  )

describe.each(ENDS)('An event stream whose lines end in %s', (_name, end) => {
  it.each([1, 2, 3, 1000])('has its answer read by the bridge, cut every %i characters', async length => {
    tools.script('tools/call', ({ id }, response) => stream(response, cutEvery(answered(id, end), length)))
    expect(await tools.upstream().send({ call: { tool: 'read' } })).toEqual({
      kind: 'result',
      result: CALLED,
    })
  })

  it('is read by the bridge where it carries 18 MiB in all, in events of 1 MiB', async () => {
    tools.script('tools/call', ({ id }, response) => {
      const events = Array.from({ length: 18 }, () => `data: ${log('x'.repeat(MIB))}${end}${end}`)
      stream(response, [...events, `data: ${answer(id)}${end}${end}`])
    })
    expect(await tools.upstream().send({ call: { tool: 'read' } })).toEqual({
      kind: 'result',
      result: CALLED,
    })
  })

  it('is cut off by the bridge where one event has more than 16 MiB', async () => {
    tools.script('tools/call', (_came, response) =>
      stream(response, [
        `data: x${end}${end}`,
        ...Array.from({ length: 17 }, () => `data: ${'x'.repeat(MIB)}${end}`),
      ]),
    )
    await expect(tools.upstream().send({ call: { tool: 'read' } })).rejects.toMatchObject({
      code: 'answer_too_large',
    })
  })

  it.each([1, 7])('has its answer read by the agent, cut every %i characters', async length => {
    tools.script('tools/call', ({ id }, response) => stream(response, cutEvery(answered(id, end), length)))
    const agent = createAgent({ key: newKey(), allowLoopback: true, mcpVersion: '2025-11-25' })
    expect((await agent.call({ resource: tools.url.href, tool: 'read' })).result).toEqual(CALLED)
  })

  it('has an answer of 6 MiB read by the agent', async () => {
    const text = 'x'.repeat(6 * MIB)
    tools.script('tools/call', ({ id }, response) => {
      const result = { content: [{ type: 'text', text }] }
      stream(response, [`data: ${JSON.stringify({ jsonrpc: '2.0', id, result })}${end}${end}`])
    })
    const agent = createAgent({ key: newKey(), allowLoopback: true, mcpVersion: '2025-11-25' })
    const { result } = await agent.call({ resource: tools.url.href, tool: 'read' })
    expect((result as { content: [{ text: string }] }).content[0].text).toHaveLength(text.length)
  })

  it('has its answer read by the calls of the demo', async () => {
    tools.script('tools/call', ({ id }, response) =>
      stream(response, [['id: 1', 'data:', '', `data: ${answer(id)}`, '', ''].join(end)]),
    )
    expect(toolText(await callByHand({ tool: 'read', resource: tools.url.href }))).toBe('done')
  })

  it('may be those of a file of accepted terms', async () => {
    const folder = await bridgeFolder()
    const file = join(folder.folder, 'terms')
    const hashes = ['A', 'B'].map(letter => `s256:${letter.repeat(43)}`)
    await writeFile(file, ['\ufeff', ...hashes, '', ''].join(end))
    expect([...(await readAcceptedTerms(['any-of', file]))]).toHaveLength(2)
    await folder.remove()
  })
})
