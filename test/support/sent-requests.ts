/**
 * Owns what a process sends, as a test looks at it: preloaded (`--import`) before the program, it writes each
 * request that goes by `fetch` as a line of JSON to the file `SENT` before it leaves.
 */
import { appendFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'

/** One request. */
export interface Sent {
  url: string
  headers: Record<string, string>
  body: string
}

/** The environment under which a process writes what it sends to `file`. */
export const sendingInto = (file: string): Record<string, string> => ({
  NODE_OPTIONS: `--import=${join(import.meta.dirname, 'sent-requests.ts')}`,
  SENT: file,
})

/** What was sent so far, oldest first. */
export async function readSent(file: string): Promise<Sent[]> {
  const lines = (await readFile(file, 'utf8')).split('\n')
  return lines.filter(line => line !== '').map(line => JSON.parse(line) as Sent)
}

const file = process.env['SENT']
if (file !== undefined) {
  const { fetch } = globalThis
  globalThis.fetch = (input, init) => {
    const url = input instanceof Request ? input.url : String(input)
    const headers = Object.fromEntries(new Headers(init?.headers))
    const body = typeof init?.body === 'string' ? init.body : ''
    appendFileSync(file, `${JSON.stringify({ url, headers, body } satisfies Sent)}\n`)
    return fetch(input, init)
  }
}
