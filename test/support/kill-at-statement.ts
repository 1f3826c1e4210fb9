/**
 * Owns the point at which a process with a database is killed: preloaded (`--import`) before the program, it
 * ends the process by SIGKILL at what `KILL_AT` says. `statement <text>`: before the first statement that
 * contains the text is sent. `commit <text>`: before the transaction of that statement is committed. `answer
 * <path>`: when the first request to that path has had its effect, before the answer is sent.
 */
import { subscribe } from 'node:diagnostics_channel'
import { ServerResponse } from 'node:http'
import { STATEMENTS_CHANNEL, type SentStatement } from '../../src/storage/core/database.ts'

const [, at, what] = /^(statement|commit|answer) (.+)$/s.exec(process.env['KILL_AT'] ?? '') ?? []
const kill = (): boolean => process.kill(process.pid, 'SIGKILL')
let isReached = false

if (at === 'statement' || at === 'commit')
  subscribe(STATEMENTS_CHANNEL, message => {
    const { text } = message as SentStatement
    if (isReached && text.toLowerCase() === 'commit') kill()
    if (!text.includes(what!)) return
    if (at === 'statement') kill()
    isReached = true
  })

if (at === 'answer') {
  // oxlint-disable-next-line typescript/unbound-method -- called on the response
  const { writeHead } = ServerResponse.prototype
  ServerResponse.prototype.writeHead = function (this: ServerResponse, ...given: unknown[]) {
    if (this.req.url === what) kill()
    return (writeHead as (...given: unknown[]) => ServerResponse).apply(this, given)
  } as typeof writeHead
}
