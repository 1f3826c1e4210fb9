/** Contract, "Owner API" (`/owner/policies*`, `/owner/operators*`) from the command line. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Command } from 'commander'
import { describe, expect, it } from 'vitest'
import { addPolicyCommands } from '../../src/owner/commands/policy-commands.ts'
import type { ApiRequest } from '../../src/client/signed-fetch.ts'
import type { OwnerClient } from '../../src/owner/client.ts'
import type { OwnerSession } from '../../src/owner/session.ts'
import { runCommand } from '../../src/terminal/command.ts'
import type { Json } from '../../src/wire/json.ts'
import type { Operator, Tier } from '../../src/wire/owner/owner-api.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const directory = temporaryFolder('tier')
const file = (content: unknown) => {
  const path = join(directory, `${Math.random().toString(36).slice(2)}.json`)
  writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content))
  return path
}

/** Runs one command against scripted answers; what it asked and what it printed. */
async function run(
  args: string[],
  answers: Json[],
  { json = false, confirm }: { json?: boolean; confirm?: (question: string) => Promise<boolean> } = {},
) {
  const asked: ApiRequest[] = []
  let printed = ''
  let complained = ''
  const session: OwnerSession = {
    client: {
      ask: async request => (asked.push(request), answers.shift()),
      policies: async () => answers.shift() as unknown as Tier[],
      operators: async function* () {
        yield* answers.shift() as unknown as Operator[]
      },
    } satisfies Pick<OwnerClient, 'ask' | 'policies' | 'operators'> as OwnerClient,
    terminal: {
      out: text => void (printed += text),
      err: text => void (complained += text),
      ...(confirm && { confirm }),
    },
    json,
  }
  const program = new Command('usher owner')
  addPolicyCommands(
    program,
    command =>
      async (...rest) =>
        command(session, ...rest),
  )
  const code = await runCommand(program, args, { out: () => {}, err: text => void (complained += text) })
  return { code, asked, printed, complained }
}

const TIER = {
  id: 'reading',
  name: 'Reading',
  resources: ['alice/notes'],
  ask_me: false,
  rules: [],
  terms: {
    template_id: 'alice/reading/v3',
    purpose: 'Read',
    scope: ['read'],
    expires_in: 60,
    prohibited: [],
  },
}

const GONE = { deleted: 'reading', ungoverned: ['alice/notes'] }

describe('usher owner tier', () => {
  it('adds what `policies --json` shows, without the version, which is not hers to say', async () => {
    const { code, asked, printed } = await run(
      ['tier', 'add', file(TIER)],
      [{ ...TIER, warnings: ['Mind\u001b[31m this.'] }],
    )
    expect(code).toBe(0)
    expect(asked[0]).toMatchObject({ method: 'POST', path: '/owner/policies' })
    expect((asked[0]!.body as typeof TIER).terms).not.toHaveProperty('template_id')
    expect(printed).toMatch(/alice\/reading\/v3/)
    expect(printed).toMatch(/Note: Mind/)
    expect(printed).not.toContain('\u001b')
  })

  it('edits and removes only the version she names, or the one that she was shown', async () => {
    const match = ['--if-match', 'alice/reading/v3']
    const edited = await run(['tier', 'edit', 'reading', file(TIER), ...match], [{ ...TIER, warnings: [] }])
    expect(edited.asked[0]).toMatchObject({
      method: 'PUT',
      path: '/owner/policies/reading',
      headers: { 'if-match': '"alice/reading/v3"' },
    })
    const removed = await run(['tier', 'remove', 'reading', ...match], [[TIER], GONE])
    expect(removed.asked[0]).toMatchObject({
      method: 'DELETE',
      path: '/owner/policies/reading',
      headers: { 'if-match': '"alice/reading/v3"' },
    })
    const shown = await run(['tier', 'remove', 'reading'], [[TIER], GONE])
    expect(shown.asked[0]).toMatchObject({ headers: { 'if-match': '"alice/reading/v3"' } })
  })

  it('prints with a removal what would bring the tier back, which `tier add` takes', async () => {
    const { printed } = await run(['tier', 'remove', 'reading'], [[TIER], GONE])
    const [said, yaml] = printed.split('\n\n')
    expect(said).toMatch(/^Removed\. Denied from now on: alice\/notes\.\n.*usher owner tier add tier\.yaml/)
    const { asked } = await run(['tier', 'add', file(yaml!)], [{ ...TIER, warnings: [] }])
    const { template_id: _version, ...terms } = TIER.terms
    expect(asked[0]!.body).toEqual({ ...TIER, terms })
    const json = await run(['tier', 'remove', 'reading'], [[TIER], GONE], { json: true })
    expect(JSON.parse(json.printed)).toEqual({ ...GONE, tier: { ...TIER, terms } })
  })

  it('asks before a removal at a terminal, with what is then denied; not a script, and not with --yes', async () => {
    const questions: string[] = []
    const answering = (answer: boolean) => async (question: string) => (questions.push(question), answer)
    const kept = await run(['tier', 'remove', 'reading'], [[TIER]], { confirm: answering(false) })
    expect(kept).toMatchObject({ code: 1, asked: [], printed: '' })
    expect(kept.complained).toMatch(/Denied from then on: alice\/notes\.[^]*Nothing was removed\./)
    const gone = await run(['tier', 'remove', 'reading'], [[TIER], GONE], { confirm: answering(true) })
    expect(gone.code).toBe(0)
    expect(questions).toEqual(['Remove the tier reading?', 'Remove the tier reading?'])
    const unasked = await run(['tier', 'remove', 'reading', '--yes'], [[TIER], GONE], {
      confirm: answering(false),
    })
    expect([unasked.code, questions.length]).toEqual([0, 2])
  })

  it('previews page by page, and counts what would have been answered otherwise', async () => {
    const request = (seq: number, would: string) => ({
      seq,
      ts: 't',
      family: null,
      handle: 'jkt:x',
      resource_id: 'alice/notes',
      was: 'grant',
      would,
      because: ['baseline:ask_me'],
    })
    const pages = [
      { requests: [request(1, 'grant')], changed: 0, warnings: [], next: 1 },
      { requests: [request(2, 'ask')], changed: 1, warnings: [], next: null },
    ]
    const { asked, printed } = await run(['tier', 'preview', file(TIER)], pages)
    expect(asked.map(one => (one.body as { after: number }).after)).toEqual([0, 1])
    expect(printed).toMatch(/1 of 2 requests in your ledger would have been answered otherwise/)
  })

  it.each([
    ['a file that is not there', join(directory, 'none.json')],
    ['a file that is no JSON', file('{')],
    ['a file that is no object', file([1])],
  ])('%s is wrong usage, and nothing is asked', async (_, path) => {
    const { code, asked, complained } = await run(['tier', 'add', path], [])
    expect([code, asked.length]).toEqual([2, 0])
    expect(complained).toMatch(/Give a tier as/)
  })
})

describe('usher owner claim and disclaim', () => {
  it.each(['claim', 'disclaim'])('%s names the operator in the body', async verb => {
    const { asked, code } = await run(
      [verb, 'https://op.example'],
      [{ origin: 'https://op.example', connections_revoked: 2 }],
    )
    expect(code).toBe(0)
    expect(asked[0]).toEqual({
      method: 'POST',
      path: `/owner/operators/${verb}`,
      body: { origin: 'https://op.example' },
    })
  })
})

describe('usher owner vocabulary and operators', () => {
  it('reads as tables; what an operator calls itself is escaped', async () => {
    const words = [{ condition: 'standing.none', takes: null, label: 'no connection', may_relax: false }]
    expect((await run(['vocabulary'], [words])).printed).toMatch(/standing\.none/)
    const list = [
      { origin: 'https://op.example', name: 'A\u202eB', agents: 1, active: 1, blocked: true, mine: false },
    ]
    const { printed } = await run(['operators'], [list])
    expect(printed).toMatch(/blocked/)
    expect(printed).not.toContain('\u202e')
  })
})
