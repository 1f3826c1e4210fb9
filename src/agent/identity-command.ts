/**
 * Owns `--identity-command`: a program of the user's that fetches identity assertions. Contract: "need_info
 * answer (beat 2)". It reads the request as JSON on its standard input, so that nothing an authority wrote
 * ever stands in a command line, and prints the assertion.
 */
import { spawn } from 'node:child_process'
import type { IdentitySource } from './identity.ts'
import { AgentError } from './agent-error.ts'

const OUTPUT_BYTES_MAX = 64 * 1024
/** A person may have to log in meanwhile. */
const SECONDS_MAX = 300

/**
 * Runs `command` by the shell for each assertion. What it says on standard error goes to the terminal. Fails
 * with `identity_unusable`.
 */
export function assertionByCommand(command: string): IdentitySource['assertion'] {
  return request =>
    new Promise((resolve, reject) => {
      const child = spawn(command, {
        shell: true,
        stdio: ['pipe', 'pipe', 'inherit'],
        timeout: SECONDS_MAX * 1000,
      })
      const chunks: Buffer[] = []
      let bytes = 0
      child.stdout.on('data', (chunk: Buffer) => {
        bytes += chunk.length
        if (bytes <= OUTPUT_BYTES_MAX) return void chunks.push(chunk)
        child.kill()
        // What the shell began outlives it until it writes again.
        child.stdout.destroy()
      })
      // It may end without reading what it was told.
      child.stdin.on('error', () => undefined)
      child.stdin.end(`${JSON.stringify(request)}\n`)
      child.on('error', reject)
      child.on('close', (code, signal) => {
        if (code === 0) return resolve(Buffer.concat(chunks).toString('utf8').trim())
        const how = signal === null ? `with status ${code}` : `by ${signal}`
        const detail = `The identity command ended ${how}, so there is no identity assertion.`
        reject(new AgentError('identity_unusable', { detail, local: true }))
      })
    })
}
