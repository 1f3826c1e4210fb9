/** docs/allowances.md: the file that it shows is one, and makes the rules that it shows. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { allowanceFrom, readAllowanceFile } from '../../src/owner/allowances/allowance-file.ts'
import { openingsOf } from '../../src/owner/allowances/openings.ts'
import type { Tier } from '../../src/wire/owner/owner-api.ts'
import { ROOT } from '../support/repository.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const page = readFileSync(join(ROOT, 'docs/allowances.md'), 'utf8')
const fenced = [...page.matchAll(/```yaml\n([\s\S]*?)```/g)].map(([, text]) => text!)
const directory = temporaryFolder('allowances-page')

test('the file of the page can be saved, and its tier gets the rules that the page shows', async () => {
  const [file, rules, ...none] = fenced
  expect(none).toEqual([])
  const path = join(directory, 'weekend.yaml')
  writeFileSync(path, file!)
  const { id, content, beyond } = await readAllowanceFile(path)
  const allowance = allowanceFrom(id, content)
  expect(allowance.until).toBe('2030-03-10T22:00:00.000Z')
  const shopping = { id: 'shopping', ask_me: true, rules: [] } as unknown as Tier
  const [opening] = openingsOf(allowance, beyond, [shopping])
  expect({ rules: opening!.rules }).toEqual(parse(rules!))
})

test('the page names each member of the file', () => {
  const members = 'amounts windows zone among until hold_s tiers unit_pointer only free beyond'.split(' ')
  expect(members.filter(member => !page.includes(`\`${member}\``))).toEqual([])
})
