/** docs/policies.md: the tier that it shows can be saved, and its tables hold the whole vocabulary. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { NEW_TIER } from '../../src/authority/owner/policies/tier-content.ts'
import { CONDITIONS, parseCondition } from '../../src/rules/conditions.ts'
import { rulesFault } from '../../src/rules/tier.ts'
import { ROOT } from '../support/repository.ts'

const page = readFileSync(join(ROOT, 'docs/policies.md'), 'utf8')
const fenced = (language: string): string =>
  new RegExp('```' + language + '\\n([\\s\\S]*?)```').exec(page)![1]!

test('the tier of six rules can be saved, and is the same as YAML and as JSON', () => {
  const tier = NEW_TIER.parse(parse(fenced('yaml')))
  expect(tier.rules).toHaveLength(6)
  expect(rulesFault(tier.rules)).toBeUndefined()
  expect(NEW_TIER.parse(JSON.parse(fenced('json')))).toEqual(tier)
})

test('the tables list each condition of the vocabulary with an example and its meaning', () => {
  const shown = [...page.matchAll(/^\| `([a-z]+\.[a-z_]+)` +\| (?:`(:\w+)`)? +\| (.*?) +\|$/gm)]
  expect(shown.map(([, condition, , meaning]) => [condition, meaning])).toEqual(
    [...CONDITIONS.values()].map(({ condition, label }) => [condition, label]),
  )
  const examples = shown.map(([, condition, value]) => `${condition}${value ?? ''}`)
  expect(examples.filter(example => 'fault' in parseCondition(example))).toEqual([])
  const [relaxing] = page.split('All others can only make an answer stricter')
  const mayRelax = shown.filter(([row]) => relaxing!.includes(row)).map(([, condition]) => condition)
  expect(mayRelax).toEqual(
    [...CONDITIONS.values()].filter(word => word.may_relax).map(word => word.condition),
  )
})

test('no condition takes a time of day, as the page says', () => {
  expect(page).toContain('No condition knows the time of day')
  const taken = new Set([...CONDITIONS.values()].map(word => word.takes))
  expect(taken).toEqual(new Set([null, 'duration', 'count', 'level', 'class', 'allowance']))
})
