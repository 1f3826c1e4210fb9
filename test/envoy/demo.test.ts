/** The command behind `make demo`: what it says, and how it ends. */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { JOINT_STORY } from '../../src/dev/joint-story.ts'
import { ORGANIZATION_STORY } from '../../src/dev/organization-story.ts'
import { STORY } from '../../src/dev/story.ts'
import { envoy } from '../support/envoy.ts'
import { describeWith } from '../support/requirement.ts'

const CLI = join(import.meta.dirname, '..', '..', 'src', 'cli.ts')

interface Ended {
  code: number
  out: string
  err: string
}

function dev(args: string[], environment: Record<string, string> = {}): Promise<Ended> {
  const env = { ...process.env, ...environment }
  return new Promise(resolve => {
    execFile(process.execPath, [CLI, 'dev', ...args], { env, timeout: 110_000 }, (error, out, err) =>
      resolve({ code: error === null ? 0 : Number(error.code), out, err }),
    )
  })
}

describeWith(await envoy(), 'usher dev', found => {
  test('with --once it tells the story step by step, and ends with 0', async () => {
    const { code, out, err } = await dev(['--once'])
    expect({ code, err }).toEqual({ code: 0, err: '' })
    expect(out).toContain(found.source)
    for (const [index, { title }] of STORY.entries()) expect(out).toContain(`${index + 1}. ${title}`)
    expect(out.trimEnd().split('\n').at(-1)).toMatch(/^All 14 steps held/)
  })

  test.each([
    ['organization', 'of an organization above her', ORGANIZATION_STORY],
    ['joint', 'of what she holds with others', JOINT_STORY],
  ])('with --story %s it tells that %s', async (name, _of, story) => {
    const { code, out, err } = await dev(['--story', name, '--once'])
    expect({ code, err }).toEqual({ code: 0, err: '' })
    for (const [index, { title }] of story.entries()) expect(out).toContain(`${index + 1}. ${title}`)
    const held = `All ${story.length} steps held`
    expect(out.trimEnd().split('\n').at(-1)?.startsWith(held)).toBe(true)
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
