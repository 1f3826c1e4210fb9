/**
 * Owns a Postgres that takes back (40001) each statement of the product's pools the first time that a worker
 * sends it, and each commit the first time that it follows a statement: `make refused-once` runs the tests of
 * the servers so. What they answer must be what they answer without it. With `REFUSED_ONCE=<file>`, to which
 * it writes what was taken back.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { appendFileSync } from 'node:fs'
import { Client } from 'pg'

/**
 * An act is tried four times, so what it sends must not be taken back at each of its statements; the next one
 * of its statements is taken back when it is sent another time.
 */
const PAUSE_MS = 500
/** What prepares a connection, or ends a transaction that was given up, is no statement of the product. */
const SETTING = /^(?:begin|start transaction|rollback|set |select set_config|select \(pg_is_in_recovery)/i
const TAKE_BACK = `DO $$ BEGIN RAISE EXCEPTION 'could not serialize access' USING ERRCODE = '40001'; END $$`

const marked = Client as typeof Client & { refusesOnce?: boolean; byTest?: AsyncLocalStorage<true> }
/** Of the worker, because a worker runs many test files and each loads this one anew. */
const byTest = (marked.byTest ??= new AsyncLocalStorage<true>())

/**
 * Does a test's own transaction, whose statements are never taken back: one that holds a lock while it waits
 * for a request cannot be done a second time.
 */
export function once<T>(work: () => Promise<T>): Promise<T> {
  return byTest.run(true, work)
}

const takenBack = new Set<string>()
const lastOf = new WeakMap<Client, string>()
let takenBackAt = -Infinity

/** The name of this statement if it is to be taken back now; undefined if it is to be done. */
function toBeTakenBack(client: Client, text: string): string | undefined {
  if (SETTING.test(text.trim())) return undefined
  const isCommit = /^commit/i.test(text)
  const name = isCommit ? `commit after ${lastOf.get(client)}` : text
  lastOf.set(client, text)
  const now = performance.now()
  if (takenBack.has(name) || now - takenBackAt < PAUSE_MS) return undefined
  takenBack.add(name)
  takenBackAt = now
  return name
}

const textOf = (statement: unknown): string | undefined =>
  typeof statement === 'string' ? statement : (statement as { text?: string } | null)?.text

function install(file: string): void {
  // oxlint-disable-next-line typescript/unbound-method -- called on the client
  const send = Client.prototype.query as unknown as (this: Client, ...given: unknown[]) => Promise<unknown>
  Client.prototype.query = function (this: Client, ...given: unknown[]) {
    const { application_name: name } = (
      this as unknown as { connectionParameters: { application_name?: string } }
    ).connectionParameters
    const text = textOf(given[0])
    const isAnswered = !given.some(one => typeof one === 'function') && text !== undefined
    const isOurs = name === 'usher' && isAnswered && byTest.getStore() === undefined
    const what = isOurs ? toBeTakenBack(this, text) : undefined
    if (what === undefined) return send.apply(this, given)
    appendFileSync(file, `${JSON.stringify(what)}\n`)
    // A commit that is taken back leaves nothing of its transaction.
    const first = what === text ? Promise.resolve() : send.call(this, 'ROLLBACK')
    return first.then(() => send.call(this, TAKE_BACK))
  } as unknown as typeof Client.prototype.query
}

const file = process.env['REFUSED_ONCE'] ?? ''
if (file !== '' && marked.refusesOnce !== true) {
  marked.refusesOnce = true
  install(file)
}
