/**
 * `usher verify revocation`: docs/choices.md, "Revocations that prove themselves"; docs/proof.md. Contract:
 * "What the service does" (row 9: revocation is immediate).
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Command } from 'commander'
import { describe, expect, it } from 'vitest'
import { configurationDocs } from '../../src/config.ts'
import { runCommand } from '../../src/terminal/command.ts'
import { addVerifiers } from '../../src/terminal/verify-program.ts'
import { verifyRevocationCalls, type VerifyRevocationOptions } from '../../src/terminal/verify-revocation.ts'
import { USUAL_BOUNDS } from '../../src/verify/index.ts'
import { asHandle, asOwner } from '../../src/wire/identifiers.ts'
import { originBase } from '../../src/wire/ledger/checkpoint.ts'
import { signRevocation } from '../../src/wire/ledger/revocation.ts'
import { generatePrivateJwk, importPrivateJwk, publicJwk } from '../../src/wire/signatures/keys.ts'
import { capturedTerminal, runCaptured } from '../support/captured-terminal.ts'
import { configFolder } from '../support/config-files.ts'
import { headOf, LOG_KEY, sampleEntries } from '../support/sample-ledger.ts'

const { folder } = configFolder()
const ISSUER = 'https://as.example'
const NOW = 1_800_000_600
const IAT = NOW - 600
const AT = IAT * 1_000 + 2_000
const key = importPrivateJwk(generatePrivateJwk())
const other = importPrivateJwk(generatePrivateJwk())
const entries = sampleEntries(9)

type Content = Parameters<typeof signRevocation>[0]
const CONTENT: Content = {
  iss: ISSUER,
  owner: asOwner('alice'),
  jti: 'rev_one',
  iat: IAT,
  at: AT,
  ends: 7,
  ended: [asHandle('jkt:one')],
  seq: 4,
  ledger_head: headOf(entries),
}
const signed = (changes: Partial<Content> = {}, by = key): string =>
  signRevocation({ ...CONTENT, ...changes }, by)
const KEYS = { issuer: ISSUER, keys: [publicJwk(key)], log_keys: [publicJwk(LOG_KEY)] }

const call = (members: object = {}): string =>
  JSON.stringify({
    time: new Date(AT - 9_900).toISOString(),
    decision: 'allow',
    owner: 'alice',
    handle: 'jkt:one',
    issuer: ISSUER,
    iat: IAT - 3_600,
    judged: { ends: 6, at: AT - 10_000 },
    msg: 'decided',
    ...members,
  })
const ORDER = call()
const AUTHORITY = call({ judged: { ends: 7, at: AT + 1_000 } })
const POINT = call({ time: new Date(AT + 600_000).toISOString() })
const OPEN = call({ judged: undefined })

let files = 0
function fileOf(...lines: string[]): string {
  const path = join(folder, `file-${++files}`)
  writeFileSync(path, lines.map(one => `${one}\n`).join(''))
  return path
}
type Changes = Partial<Omit<VerifyRevocationOptions, 'keys'>> & { document?: string; keys?: object }

async function verify(
  calls: readonly string[],
  { document = signed(), keys = KEYS, ...options }: Changes = {},
) {
  const where = { calls: [fileOf(...calls)], ...options, keys: fileOf(JSON.stringify(keys)) }
  return runCaptured(terminal => {
    const program = new Command('verify').action(() =>
      verifyRevocationCalls(document, where, { terminal, now: NOW }),
    )
    return runCommand(program, [], terminal)
  })
}

describe('Calls on record', () => {
  it('end with 0 where nobody is at fault: a line for each, a summary, and what it all rests on', async () => {
    const { code, printed, said } = await verify([ORDER, '', 'Listening', OPEN, call({ handle: 'jkt:two' })])
    expect([code, said]).toEqual([0, ''])
    const [head, ...lines] = printed.split('\n')
    expect(head).toMatch(/^The revocation rev_one of alice at .* the access of one agent, by entry 4/)
    expect(lines).toEqual([
      expect.stringMatching(/^in order: .*file-\d+:1: .*Z jkt:one: .* 10 s before the revocation was/),
      expect.stringMatching(/^undecided: .*file-\d+:4: .* does not say what the authority knew/),
      'Calls judged: 2 (in order 1, undecided 1, authority at fault 0, enforcement point at fault 0). ' +
        'Not judged: 0 that another authority judged, 1 of grants that it did not end, ' +
        '0 of grants that may be of after it, 0 that were refused. ' +
        'Lines that tell of no call: 1.',
      expect.stringContaining('rests on the word of the enforcement point: nobody signed `judged`'),
      '',
    ])
  })

  it('are told together with how long after the act the revocation was complete, because until then they are in order', async () => {
    const late = { at: AT + 400_000 }
    const judged = { ends: 6, at: AT + 390_000 }
    const time = new Date(AT + 391_000).toISOString()
    const { code, printed } = await verify([call({ judged, time })], { document: signed(late) })
    expect(code).toBe(0)
    expect(printed).toMatch(/^The revocation .* It was complete 402 s after the act, at \d{4}-.*Z: /)
    expect(printed).toMatch(/^in order: /m)
  })

  it.each([
    ['authority at fault', AUTHORITY],
    ['enforcement point at fault', POINT],
  ])('end with 1 where one says: %s', async (verdict, line) => {
    const { code, printed } = await verify([ORDER, line])
    expect(code).toBe(1)
    expect(printed).toMatch(new RegExp(`^${verdict}: .*:2: `, 'm'))
    expect(printed).toContain(`${verdict} 1`)
    expect(printed).toContain('rests on the word of the enforcement point')
  })

  it('are counted where they are not judged, and why', async () => {
    const { code, printed } = await verify([
      call({ owner: 'bob' }),
      call({ iat: IAT + 9 }),
      call({ iat: IAT - 60 }),
      call({ decision: 'deny', judged: undefined }),
    ])
    expect(code).toBe(0)
    expect(printed).toContain('Calls judged: 0 ')
    expect(printed).toContain('1 of grants that it did not end, 2 of grants that may be of after it, 1 that')
  })

  it('of another authority are counted and not judged, whatever their record says', async () => {
    const elsewhere = { issuer: 'https://other.example' }
    const lines = [
      call(elsewhere),
      call({ ...elsewhere, judged: undefined }),
      call({ ...elsewhere, judged: { ends: 7, at: AT + 1_000 } }),
      call({ ...elsewhere, time: new Date(AT + 600_000).toISOString() }),
    ]
    const { code, printed } = await verify([...lines, ORDER])
    expect(code).toBe(0)
    expect(printed).toContain('Calls judged: 1 (in order 1, ')
    expect(printed).toContain('Not judged: 4 that another authority judged, 0 of grants')
    expect(printed).not.toContain('not which authority judged them')
  })

  it('of older logs, which name no authority, are judged all the same, and one line says what that rests on', async () => {
    const older = { issuer: undefined }
    const lines = [call({ ...older, decision: 'deny' }), call(older), call(older), ORDER]
    const { code, printed } = await verify(lines)
    expect(code).toBe(0)
    expect(printed).toContain('Calls judged: 3 (in order 3, ')
    expect(printed).toContain(
      'Of 2 of these calls the log says whose they were, and not which authority judged them',
    )
    expect(printed).toContain(`the time at which the owner was at ${ISSUER}.`)
    expect((await verify([ORDER, AUTHORITY])).printed).not.toContain('not which authority judged them')
    expect(await verify([call({ ...older, judged: { ends: 7, at: AT } })])).toMatchObject({ code: 1 })
  })

  it('may stand in several logs, and the bounds are those of the enforcement point', async () => {
    const late = call({ time: new Date(AT - 10_000 + 70_000).toISOString() })
    expect(await verify([], { calls: [fileOf(ORDER), fileOf(late)] })).toMatchObject({ code: 1 })
    expect(await verify([late], { timeOut: 10_000 })).toMatchObject({ code: 0 })
    expect(await verify([late], { timeOut: 10_000, lease: 0 })).toMatchObject({ code: 0 })
    expect(await verify([late], { timeOut: 9_999, lease: 0 })).toMatchObject({ code: 1 })
  })

  it.each<[string, string[], RegExp]>([
    ['one is cut off', [ORDER, ORDER.slice(0, 90)], /file-\d+:2 is no line of the log, or not a whole one/],
    ['one has a time that is none', [call({ time: 'soon' })], /file-\d+:1 .*Give time as the log writes it/],
    ['there are none', ['{"msg":"serving"}'], /file-\d+ tells of no call/],
    ['one has no end', [ORDER, 'x'.repeat(17 * 2 ** 20)], /file-\d+ has a line that is too long/],
    ['the log is empty', [], /file-\d+ tells of no call/],
  ])('are wrong usage where %s, and no verdict is printed', async (_what, lines, sentence) => {
    const { code, printed, said } = await verify(lines)
    expect([code, printed, said]).toEqual([2, '', expect.stringMatching(sentence)])
  })

  it('are wrong usage where the log cannot be read', async () => {
    const { code, said } = await verify([], { calls: [join(folder, 'none')] })
    expect([code, said]).toEqual([2, expect.stringContaining('none cannot be read')])
    expect(await verify([], { calls: [folder] })).toMatchObject({ code: 2 })
    expect(await verify([], { calls: ['-', '-'] })).toMatchObject({
      code: 2,
      said: expect.stringContaining('Give - once'),
    })
  })
})

describe('A revocation', () => {
  it('is given as it is, or as a file', async () => {
    expect(await verify([ORDER], { document: fileOf(signed()) })).toMatchObject({ code: 0, said: '' })
    const { code, said } = await verify([ORDER], { document: 'rev.one.jwt' })
    expect([code, said]).toEqual([2, expect.stringContaining('rev.one.jwt cannot be read')])
  })

  it.each<[string, string, object]>([
    ['that another key signed', signed({}, other), KEYS],
    ['of another issuer than the keys', signed({ iss: 'https://other.example' }), KEYS],
    ['of the future', signed({ iat: NOW + 61 }), KEYS],
    ['that is complete only in the future', signed({ at: (NOW + 61) * 1_000 }), KEYS],
    ['whose head another log signed', signed({ ledger_head: headOf(entries, { key: other }) }), KEYS],
    ['whose head no key of the log signed', signed(), { ...KEYS, log_keys: { keys: [publicJwk(other)] } }],
    [
      'whose head was changed',
      signed({ ledger_head: { ...headOf(entries), size: 10 } }),
      { ...KEYS, log_keys: { keys: [publicJwk(LOG_KEY)] } },
    ],
    [
      "whose head is of another authority's ledger",
      signed({ ledger_head: headOf(entries, { origin: `${originBase('https://other.example')}AbCdEf` }) }),
      KEYS,
    ],
    ['whose head does not cover its entry', signed({ seq: 10 }), KEYS],
  ])('%s does not hold: nobody is accused by it', async (_what, document, keys) => {
    const { code, printed, said } = await verify([AUTHORITY], { document, keys })
    expect([code, printed, said]).toEqual([1, '', expect.stringContaining('This revocation does not hold: ')])
  })

  it('whose log key is not known judges all the same, and says that its head was not verified', async () => {
    const { code, printed } = await verify([ORDER], { keys: { keys: [publicJwk(key)] } })
    expect([code, printed]).toEqual([0, expect.stringContaining('You gave no key of the log')])
    const both = { keys: [publicJwk(key), publicJwk(LOG_KEY)] }
    expect((await verify([ORDER], { keys: both })).printed).toContain('whose head the log signed')
  })

  it.each<[string, object]>([
    ['without keys', { ...KEYS, keys: [] }],
    ['with keys of the log alone', { log_keys: KEYS.log_keys }],
    ['with empty log_keys', { ...KEYS, log_keys: [] }],
    ['with log_keys that are none', { ...KEYS, log_keys: 'none' }],
    ['that is a list', []],
  ])('is wrong usage with a file of keys %s', async (_what, keys) => {
    const { code, said } = await verify([ORDER], { keys })
    expect([code, said]).toEqual([2, expect.stringContaining('give {issuer, keys, log_keys}')])
  })

  it('of more than 50 agents needs their handles, as the entry of the ledger lists them', async () => {
    const ended = Array.from({ length: 51 }, (_, n) => asHandle(n === 9 ? 'jkt:one' : `jkt:of-${n}`))
    const document = signed({ ended })
    expect(await verify([ORDER], { document })).toMatchObject({
      code: 2,
      said: expect.stringContaining('--ended: Give the handles'),
    })
    for (const source of [ended, { seq: 4, kind: 'blocked', ended }]) {
      const { code, printed } = await verify([AUTHORITY], { document, ended: fileOf(JSON.stringify(source)) })
      expect([code, printed]).toEqual([1, expect.stringContaining('the access of 51 agents')])
    }
    for (const source of [ended.slice(1), [], {}, 7])
      expect((await verify([ORDER], { document, ended: fileOf(JSON.stringify(source)) })).code).toBe(2)
    expect((await verify([ORDER], { ended: fileOf(JSON.stringify(ended)) })).code).toBe(2)
  })
})

describe('The bounds that are usual', () => {
  it('are those of a sidecar whose file says nothing, and the help names them', () => {
    const { timeOutMs, leaseMs } = USUAL_BOUNDS
    expect(configurationDocs()).toContain(`- \`deadline_ms\` (50 to 60000; default \`${timeOutMs}\`)`)
    const program = new Command('verify')
    addVerifiers(program, () => Promise.reject(new Error('nobody is asked')))
    const help = program.commands.find(command => command.name() === 'revocation')!.helpInformation()
    expect(help.replaceAll(/\s+/g, ' ')).toContain(`${timeOutMs} if left out`)
    expect(help.replaceAll(/\s+/g, ' ')).toContain(`${leaseMs} if left out`)
  })

  it.each(['--time-out', '--lease'])('give way to %s in whole milliseconds alone', async option => {
    const program = new Command('verify')
    addVerifiers(program, () => Promise.reject(new Error('nobody is asked')))
    const terminal = capturedTerminal()
    const options = ['--keys', 'none', '--calls', 'none', option, '5s']
    expect(await runCommand(program, ['revocation', 'none', ...options], terminal)).toBe(2)
    expect(terminal.said).toContain('Give a time in whole milliseconds, not 5s.')
  })
})
