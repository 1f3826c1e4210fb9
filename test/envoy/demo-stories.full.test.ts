/** The command behind `make demo`, with the other stories that it tells. */
import { expect, test } from 'vitest'
import { JOINT_STORY } from '../../src/dev/joint-story.ts'
import { ORGANIZATION_STORY } from '../../src/dev/organization-story.ts'
import { dev } from '../support/dev-command.ts'
import { envoy } from '../support/envoy.ts'
import { describeWith } from '../support/requirement.ts'

describeWith(await envoy(), 'usher dev', () => {
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
})
