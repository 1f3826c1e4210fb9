/** The program itself: one subcommand per party, and what it does when it is called wrongly. */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'

const CLI = join(import.meta.dirname, '..', 'src', 'cli.ts')

function usher(...args: string[]): Promise<{ code: number; out: string; err: string }> {
  return new Promise(resolve => {
    const environment = { PATH: process.env['PATH'], HOME: '/nonexistent' }
    const child = execFile(process.execPath, [CLI, ...args], { env: environment }, (_error, out, err) =>
      resolve({ code: child.exitCode!, out, err }),
    )
  })
}

describe('usher', () => {
  it('names a subcommand for every party', async () => {
    const { code, out } = await usher('--help')
    expect(code).toBe(0)
    for (const name of ['authority', 'sidecar', 'migrate', 'agent', 'owner', 'admin', 'dev', 'print-docs'])
      expect(out).toContain(`\n  ${name} `)
  })

  it.each([
    [['owner', '--help'], 'Usage: usher owner'],
    [['agent', 'call', '--help'], 'Usage: usher agent call'],
  ])('leaves the arguments of a party to the party: %j', async (args, line) => {
    const { code, out } = await usher(...args)
    expect(code).toBe(0)
    expect(out).toContain(line)
  })

  it('prints the reference of every setting', async () => {
    const { code, out } = await usher('print-docs')
    expect(code).toBe(0)
    for (const name of ['UMA_AS_ISSUER', 'UMA_PEP_CONFIG', 'UMA_OWNER_KEY', 'UMA_AGENT_STORE'])
      expect(out).toContain(name)
  })

  it.each([
    [['frobnicate'], "unknown command 'frobnicate'"],
    [['owner', 'pending'], 'Name the authority: --issuer <url> or UMA_OWNER_ISSUER.'],
    [['admin', 'members'], 'Name the organization: --issuer <url> or UMA_ADMIN_ISSUER.'],
    [['authority'], 'Set UMA_AS_ISSUER'],
    [['sidecar', '--config', '/nonexistent/sidecar.yaml'], '/nonexistent/sidecar.yaml'],
  ])('%j ends with 2 and a sentence, not a stack', async (args, sentence) => {
    const { code, out, err } = await usher(...args)
    expect(code).toBe(2)
    expect(err).toContain(sentence)
    expect(out + err).not.toMatch(/\n\s+at /)
  })
})
