/** Owns `usher admin` as its tests run it: in this process, with the key of `ines` and its own settings. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, vi } from 'vitest'
import { runAdmin } from '../../src/admin/main.ts'
import { runCaptured, type CommandRun } from './captured-terminal.ts'
import type { TestOrganization } from './organization.ts'

/** Gives each test the settings that lead to this organization. `at` is the path of a file beside its key. */
export function adminCommand(
  issuer: () => string,
  stand: { organization: Pick<TestOrganization, 'key' | 'adminUrl'> },
): { admin: (...args: string[]) => Promise<CommandRun>; at: (name: string) => string } {
  let folder: string
  const at = (name: string): string => join(folder, name)
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'usher-admin-'))
    const privateJwk = stand.organization.key.privateKeyObject.export({ format: 'jwk' })
    writeFileSync(at('key.json'), JSON.stringify(privateJwk), { mode: 0o600 })
  })
  afterAll(() => rmSync(folder, { recursive: true }))
  beforeEach(() => {
    vi.stubEnv('UMA_ADMIN_ISSUER', issuer())
    vi.stubEnv('UMA_ADMIN_API', stand.organization.adminUrl)
    vi.stubEnv('UMA_ADMIN_KEY', at('key.json'))
  })
  return { admin: (...args) => runCaptured(terminal => runAdmin(args, terminal)), at }
}
