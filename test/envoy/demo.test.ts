/** The command behind `make demo`: what it says, and how it ends. */
import { expect, test } from 'vitest'
import { STORY } from '../../src/dev/story/story.ts'
import { dev } from '../support/dev-command.ts'
import { envoy } from '../support/envoy.ts'
import { describeWith } from '../support/requirement.ts'

describeWith(await envoy(), 'usher dev', found => {
  test('with --once it tells the story step by step, and ends with 0', async () => {
    const { code, out, err } = await dev(['--once'])
    expect({ code, err }).toEqual({ code: 0, err: '' })
    expect(out).toContain(found.source)
    for (const [index, { title }] of STORY.entries()) expect(out).toContain(`${index + 1}. ${title}`)
    expect(out.trimEnd().split('\n').at(-1)).toMatch(/^All 14 steps held/)
  })

  test('with --fetch-envoy it only makes sure that there is an Envoy', async () => {
    expect(await dev(['--fetch-envoy'])).toEqual({ code: 0, out: `Envoy: ${found.source}\n`, err: '' })
  })
})

test('without an Envoy it ends with 1, and says in one line how to get one', async () => {
  const { code, out, err } = await dev(['--once'], { ENVOY_BIN: '/nonexistent/envoy' })
  expect({ code, out }).toEqual({ code: 1, out: '' })
  expect(err.trimEnd().split('\n')).toEqual([expect.stringContaining('ENVOY_BIN')])
})
