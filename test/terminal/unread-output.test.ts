/**
 * A reader that goes away, or never reads. Contract: "What the service does": a command ends quietly, and a
 * server goes on within its memory.
 */
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { boundedOutput } from '../../src/http/telemetry/log-output.ts'
import { endWhenUnread, UNREAD } from '../../src/terminal/unread-output.ts'
import { until } from '../support/until.ts'
import { usherProgram } from '../support/usher-program.ts'

const CLI = usherProgram()
const TERMINAL = join(import.meta.dirname, '../../src/terminal/command.ts')

/** The ending of a command in a pipe, and what it said on standard error. */
function inPipe(command: string): Promise<{ codes: string; err: string }> {
  return new Promise((resolve, reject) => {
    const script = `${command}; codes="\${PIPESTATUS[*]}"; echo; echo "$codes"`
    const child = spawn('bash', ['-c', script], {
      env: { PATH: process.env['PATH'], HOME: '/nonexistent', NODE: process.execPath, CLI },
    })
    let out = ''
    let err = ''
    child.stdout.on('data', (data: Buffer) => (out += data.toString()))
    child.stderr.on('data', (data: Buffer) => (err += data.toString()))
    child.once('error', reject)
    child.once('close', () => resolve({ codes: out.trim().split('\n').at(-1)!, err }))
  })
}

describe('A command whose reader goes away', () => {
  it.each([
    ['"$NODE" "$CLI" print-docs | true'],
    ['"$NODE" "$CLI" print-docs | head -c 10'],
    ['"$NODE" "$CLI" --help | true'],
    ['"$NODE" "$CLI" owner --help | true'],
    ['"$NODE" "$CLI" nonsense 2>&1 | true'],
  ])('%s ends with 141 or as it would, and says nothing', async command => {
    const { codes, err } = await inPipe(command)
    expect(codes).toMatch(/^(?:141|0|2) 0$/)
    expect(err).toBe('')
  })

  it('ends with 141 if the reader is known to be gone', () => {
    const ends: number[] = []
    const stream = new Writable()
    endWhenUnread([stream], code => ends.push(code))
    stream.emit('error', Object.assign(new Error('write EPIPE'), { code: 'EPIPE' }))
    expect(ends).toEqual([UNREAD])
    expect(() => stream.emit('error', Object.assign(new Error('no space'), { code: 'ENOSPC' }))).toThrow(
      'no space',
    )
  })

  it('goes on where a log listens for that, because a server serves whoever reads it', () => {
    const ends: number[] = []
    const stream = new Writable({ write: (_chunk, _encoding, done) => done() })
    endWhenUnread([stream], code => ends.push(code))
    const write = boundedOutput(stream)
    stream.emit('error', Object.assign(new Error('write EPIPE'), { code: 'EPIPE' }))
    write('a line\n', 1)
    expect(ends).toEqual([])
  })
})

/** What a command does with its terminal, as a program of its own whose output stands still at first. */
const SAYING = `
  import { processTerminal } from ${JSON.stringify(TERMINAL)}
  for (let n = 0; n < 20_000; n++) processTerminal.err('x'.repeat(999) + '\\n')
  process.stdout.write(process.stderr.writableLength + '\\n')
  await new Promise(resolve => process.stdin.once('data', resolve))
  await new Promise(resolve => process.stderr.write('', resolve))
  processTerminal.err('the last\\n')
  process.stdin.destroy()`
const PRINTING = `
  import { processTerminal } from ${JSON.stringify(TERMINAL)}
  let printed = 0
  for (; printed < 20_000; printed++) {
    if (process.stdout.writableNeedDrain) process.stderr.write('waits\\n')
    await processTerminal.ready()
    processTerminal.out('x'.repeat(999) + '\\n')
    if (process.stdout.writableLength > 100_000) process.stderr.write('too much\\n')
  }`

describe('A command that goes on while nobody reads', () => {
  function run(script: string) {
    const child = spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: 'pipe' })
    const read = { stdout: '', stderr: '' }
    const follow = (name: 'stdout' | 'stderr') =>
      void child[name].on('data', (data: Buffer) => (read[name] += data.toString()))
    const ended = new Promise<number | null>(resolve => child.once('close', resolve))
    return { child, read, follow, ended }
  }

  it('keeps messages up to a bound, drops those beyond it, and says so when it is read', async () => {
    const { child, read, follow, ended } = run(SAYING)
    follow('stdout')
    await until(() => read.stdout.includes('\n'))
    expect(Number(read.stdout)).toBeLessThanOrEqual(1_024 * 1_024)
    follow('stderr')
    child.stdin.write('read\n')
    expect(await ended).toBe(0)
    const lines = read.stderr.trim().split('\n')
    const [, dropped] = /^usher: (\d+) messages were dropped here/.exec(lines.at(-2)!) ?? []
    expect(lines.at(-1)).toBe('the last')
    expect(lines.length - 2 + Number(dropped)).toBe(20_000)
  })

  it('prints no more than is taken, and all of it once it is', async () => {
    const { read, follow, ended } = run(PRINTING)
    follow('stderr')
    await until(() => read.stderr.includes('\n'))
    follow('stdout')
    expect(await ended).toBe(0)
    expect(read.stdout.length).toBe(20_000 * 1_000)
    expect(read.stderr).toContain('waits')
    expect(read.stderr).not.toContain('too much')
  })
})

describe('A log that nobody reads', () => {
  /** Takes nothing until it is told to. */
  function standing() {
    const waiting: (() => void)[] = []
    const taken: string[] = []
    const stream = new Writable({
      decodeStrings: false,
      write: (chunk: string, _encoding, done) => {
        taken.push(chunk)
        waiting.push(done)
      },
    })
    return { stream, taken, read: () => waiting.splice(0).forEach(done => done()) }
  }

  it('takes memory up to a bound, and then drops lines and counts them', async () => {
    const { stream, taken, read } = standing()
    const write = boundedOutput(stream, 1_000)
    for (let n = 0; n < 100; n++) write(`${'x'.repeat(99)}\n`, 1)
    expect(stream.writableLength).toBe(1_000)
    while (stream.writableLength > 0) {
      read()
      await new Promise(setImmediate)
    }
    write('again\n', 1)
    const [said, line] = taken.at(-1)!.split('\n')
    expect(JSON.parse(said!)).toMatchObject({
      level: 'warn',
      dropped: 90,
      msg: expect.stringContaining('dropped') as string,
    })
    expect(line).toBe('again')
    write('and again\n', 1)
    read()
    await new Promise(setImmediate)
    expect(taken.at(-1)).toBe('and again\n')
  })

  it('counts lines, and not writes', async () => {
    const { stream, taken, read } = standing()
    const write = boundedOutput(stream, 100)
    write(`${'x'.repeat(90)}\n`, 1)
    write('a\nb\nc\n'.repeat(10), 30)
    read()
    await new Promise(setImmediate)
    write('d\n', 1)
    expect(taken.at(-1)).toContain('"dropped":30')
  })
})
