/** The command behind `make demo`: what it says, and how it ends. */
import { expect, test } from 'vitest'
import { STORY } from '../../src/dev/story/story.ts'
import { THEFT } from '../../src/dev/story/theft.ts'
import { dev } from '../support/dev-command.ts'
import { envoy } from '../support/envoy.ts'
import { describeWith } from '../support/requirement.ts'

/** One run for the tests that read it. */
let run: ReturnType<typeof dev> | undefined
const wholeStory = (): ReturnType<typeof dev> => (run ??= dev(['--once']))

describeWith(await envoy(), 'usher dev', found => {
  test('with --once it tells the story step by step, and ends with 0', async () => {
    const { code, out, err } = await wholeStory()
    expect({ code, err }).toEqual({ code: 0, err: '' })
    expect(out).toContain(found.source)
    const steps = [...STORY, THEFT]
    for (const [index, { title }] of steps.entries()) expect(out).toContain(`${index + 1}. ${title}`)
    expect(out.trimEnd().split('\n').at(-1)).toMatch(/^All 15 steps held/)
  })

  test('it ends with the row that a thief changed, the command that finds it, and what that says', async () => {
    const { out } = await wholeStory()
    const [, step] = out.split(THEFT.title)
    const [good, found] = ['Entries 1 to ', 'entry: Entry '].map(text => step!.indexOf(`← ${text}`))
    expect(good).toBeGreaterThan(0)
    const change = step!.indexOf(
      "→ UPDATE ledger SET data = replace(data::text, 'place_trade', 'portfolio_read')",
    )
    expect(change).toBeGreaterThan(good!)
    const command = step!.search(/→ usher verify ledger \S+ledger-after\.jsonl --keys \S+ --heads \S+$/m)
    expect(command).toBeGreaterThan(change)
    expect(found).toBeGreaterThan(command)
    expect(step!.match(/^ +← entry: /gm)).toHaveLength(1)
    expect(step!.indexOf('The row stays changed')).toBeGreaterThan(found!)
    expect(step).toContain('run make demo again: each run has a database of its own')
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
