/** contract, "What the service does": what the demo says before its story, and leaves for a person to try. */
import { expect, test } from 'vitest'
import { commandsOfSteps, legend } from '../../src/dev/story/legend.ts'
import { AFTER_THE_STORY, handSettings, tryByHand } from '../../src/dev/story/try-by-hand.ts'
import type { Stack } from '../../src/dev/stack/stack.ts'
import { STORY } from '../../src/dev/story/story.ts'
import { findAgain } from '../../src/dev/story/theft.ts'

const stack = {
  directory: 'demo-files',
  databaseUrl: 'postgres://127.0.0.1:5/postgres',
  issuer: 'http://127.0.0.1:9100',
  resource: 'http://127.0.0.1:8080/mcp/alice',
  toolServer: { port: 1 },
} as Stack

test('names the line that adds the bridge to a client, and where logs, database and receipt are', () => {
  const told = tryByHand(stack, {
    tryFile: 'try.sh',
    link: 'http://127.0.0.1:9/#token=x',
    receipt: 'r.jws',
  })
  for (const said of [
    `\n  usher agent bridge config --client claude-code ${stack.resource} --write`,
    'demo-files/*.log',
    stack.databaseUrl,
    'usher verify receipt r.jws',
    'any JOSE library verifies it by the keys at http://127.0.0.1:9100/jwks',
  ])
    expect(told).toContain(said)
})

test('ends the story of an organization with the commands of its acts, as its administrator and as alice', () => {
  const household = { ownerKeyFile: 'owner.json', agentKeyFile: 'agent.json' }
  const place = {
    issuer: 'http://127.0.0.1:7',
    replicas: [{ url: 'http://127.0.0.1:7', adminApi: 'http://127.0.0.1:8' }],
    adminKeyFile: 'admin.json',
  }
  const governed = { ...stack, household, organization: place } as Stack
  const told = tryByHand(governed, { tryFile: 'try.sh', link: undefined, receipt: undefined })
  for (const said of [
    `\n  usher admin invite alice --authority ${stack.issuer} `,
    '\n  usher owner organization preview <code> ',
    `\n  usher agent break-glass ${stack.resource} place_trade `,
    '\n    --organization http://127.0.0.1:7 --owner alice --resource-id alice/trades --scope trade \\\n',
    '\n  usher owner organization leave\n',
  ])
    expect(told).toContain(said)
  expect(handSettings(governed)).toMatchObject({
    UMA_ADMIN_ISSUER: 'http://127.0.0.1:7',
    UMA_ADMIN_API: 'http://127.0.0.1:8',
    UMA_ADMIN_KEY: 'admin.json',
  })
  const alone = { ...stack, household } as Stack
  expect(tryByHand(alone, { tryFile: 'try.sh', link: undefined, receipt: undefined })).not.toContain('ines')
  expect(JSON.stringify(handSettings(alone))).not.toContain('ADMIN')
})

test('prints no address after a story that ends, because nothing listens there any more', () => {
  expect(AFTER_THE_STORY).not.toMatch(/http|127\.0\.0\.1|:\d/)
})

test('has a legend of six lines before the first step', () => {
  expect(legend(stack).trimEnd().split('\n')).toHaveLength(6)
})

test('has for each step the command that repeats it, except for what only the story does', () => {
  const commands = commandsOfSteps(stack)
  expect(commands).toHaveLength(STORY.length)
  const none = STORY.filter((_step, at) => commands[at] === undefined).map(({ title }) => title)
  expect(none).toEqual([
    'Under that grant, other parameters and another tool are refused, and spend nothing',
    'The approved trade passes, once; the same grant again is challenged',
    'A forged signature, a stolen grant and a bare bearer token are refused',
  ])
})

test('has for the theft the command that exports the ledger again and finds the changed row', () => {
  expect(findAgain(stack)).toBe(
    'usher owner ledger export demo-files/ledger-after.jsonl && usher verify ledger demo-files/ledger-after.jsonl --keys demo-files/ledger-keys.json --heads demo-files/ledger-head.jsonl',
  )
})
