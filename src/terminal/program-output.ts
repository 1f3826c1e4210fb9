/**
 * Owns how a program of the user is asked for something: it reads the question as JSON on its standard input,
 * so that text from a server never enters a command line, and prints the answer. Contract: "need_info answer
 * (beat 2)" (identity assertions are had from elsewhere).
 */
import { spawn } from 'node:child_process'

const OUTPUT_BYTES_MAX = 64 * 1024
/** A person may have to log in meanwhile. */
const SECONDS_MAX = 300

/** The program ended without an answer: with which status, or by which signal. */
export class ProgramEnded extends Error {}

/**
 * What `command`, run by the shell, prints for `question`, without white space around it. Its standard error
 * goes to the terminal. Rejects with `ProgramEnded`.
 */
export function outputOf(command: string, question: object): Promise<string> {
  return new Promise((resolve, reject) => {
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
      // A process that the shell began survives it until it writes again.
      child.stdout.destroy()
    })
    // It may end without reading its input.
    child.stdin.on('error', () => undefined)
    child.stdin.end(`${JSON.stringify(question)}\n`)
    child.on('error', reject)
    child.on('close', (code, signal) => {
      if (code === 0) return resolve(Buffer.concat(chunks).toString('utf8').trim())
      reject(new ProgramEnded(signal === null ? `with status ${code}` : `by ${signal}`))
    })
  })
}
