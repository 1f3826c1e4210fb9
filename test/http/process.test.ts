/** Contract, "Health": a process that is told to end drains, ends in order, and never hangs. */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { pathToFileURL } from 'node:url'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { startServed } from '../../src/http/process.ts'
import { ROOT } from '../support/repository.ts'
import { until } from '../support/until.ts'

const MODULE = pathToFileURL(join(ROOT, 'src/http/process.ts')).href

/** A process that tells what is asked of it; `close` is the body of its own. */
function start(close: string, options: { drainMs: number; closeMsMax?: number }, more = '') {
  const script = `
    import { serveUntilSignalled } from '${MODULE}'
    const busy = setInterval(() => {}, 1000)
    serveUntilSignalled(
      { drain: () => console.log("drains"), close: async () => { console.log('closes'); ${close} }, ${more} },
      { ...${JSON.stringify({ name: 'the test', ...options })}, log: { info: (...said) => console.log(said.at(-1).split(':')[0]) } },
    )
    console.log('serves')`
  const child: ChildProcess = spawn(process.execPath, ['--input-type=module', '-e', script])
  const said = { out: '', err: '' }
  child.stdout!.on('data', (chunk: Buffer) => void (said.out += chunk.toString()))
  child.stderr!.on('data', (chunk: Buffer) => void (said.err += chunk.toString()))
  const ended = once(child, 'close') as Promise<[number | null]>
  const says = (word: string) => until(async () => said.out.includes(word))
  return { child, said, ended, says }
}

test.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)(
  'on %s it drains, then closes, then ends, whatever still stands',
  async signal => {
    const { child, said, ended, says } = start('', { drainMs: 10 })
    await says('serves')
    child.kill(signal)
    expect((await ended)[0]).toBe(0)
    expect(said).toEqual({ out: 'serves\ndraining\ndrains\ncloses\nended in order\n', err: '' })
  },
)

test('on SIGHUP a party that reads something anew does so, and goes on; while it drains that asks for nothing', async () => {
  const rereads = "onHangup: () => console.log('reads anew')"
  const { child, said, ended, says } = start('', { drainMs: 300 }, rereads)
  await says('serves')
  child.kill('SIGHUP')
  await says('reads anew')
  child.kill('SIGTERM')
  await says('drains')
  child.kill('SIGHUP')
  expect((await ended)[0]).toBe(0)
  expect(said).toEqual({ out: 'serves\nreads anew\ndraining\ndrains\ncloses\nended in order\n', err: '' })
})

test('at a terminal SIGHUP ends that party, too, and the log says how to start it otherwise', async () => {
  const atTerminal = "Object.defineProperty(process.stdin, 'isTTY', { value: true })"
  const rereads = `onHangup: (${atTerminal}, () => console.log('reads anew'))`
  const { child, said, ended, says } = start('', { drainMs: 10 }, rereads)
  await says('serves')
  child.kill('SIGHUP')
  expect((await ended)[0]).toBe(0)
  expect(said.out).toContain('draining, because SIGHUP ends what a terminal started')
  expect(said.out).not.toContain('reads anew')
})

test('a second signal ends it at once', async () => {
  const { child, said, ended, says } = start('', { drainMs: 600_000 })
  await says('serves')
  child.kill('SIGTERM')
  await says('drains')
  child.kill('SIGTERM')
  expect((await ended)[0]).toBe(1)
  expect(said.out).not.toContain('closes')
})

test.each([
  ['fails', `throw new Error('stuck')`, /^the test did not end in order: Error: stuck\n$/],
  ['takes too long', 'await new Promise(() => {})', /^the test did not end in order: 50 ms have passed\n$/],
])('an end that %s is told, and is an end', async (_how, close, told) => {
  const { child, said, ended, says } = start(close, { drainMs: 0, closeMsMax: 50 })
  await says('serves')
  child.kill('SIGTERM')
  expect((await ended)[0]).toBe(1)
  expect(said.err).toMatch(told)
})

test('a start that fails closes what was opened until then, the last first, and tells why', async () => {
  const closed: string[] = []
  const starting = startServed(async ({ closers }) => {
    closers.push(async () => void closed.push('store'))
    closers.push(async () => void closed.push('listener'))
    throw new Error('the address is taken')
  })
  await expect(starting).rejects.toThrow('the address is taken')
  expect(closed).toEqual(['listener', 'store'])
})

test('closing drains first, tells it once, and closes once', async () => {
  const told: string[] = []
  const served = await startServed(async ({ closers, drainers, healthy }) => {
    drainers.push(() => void told.push(`drained ${healthy()}`))
    closers.push(async () => void told.push(`closed ${healthy()}`))
    told.push(`began ${healthy()}`)
    return {}
  })
  await served.close()
  await served.close()
  expect(told).toEqual(['began true', 'drained false', 'closed false'])
})
